import { hash } from 'node:crypto'
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely'
import type { Dialect } from '../session.ts'

export const postgresDialect: Dialect = {
  listed: (values) => sql`(select value from unnest(${values}::text[]) as listed (value))`,
  listedPairs: (pairs) =>
    sql`(select * from unnest(${pairs.map(([a]) => a)}::text[], ${pairs.map(([, b]) => b)}::text[]))`,
}

/** Makes text and parameters of statements; runs nothing. */
const compiler = new Kysely<never>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

export function compiled(statement: RawBuilder<unknown>): { text: string; values: unknown[] } {
  const { sql: text, parameters } = statement.compile(compiler)
  return { text, values: [...parameters] }
}

/** Statements whose names are kept; more than all there are. */
const namesMax = 200
const names = new Map<string, string>()

/**
 * The name under which a session keeps a statement. It follows from the text, so that no two statements have the same one,
 * whoever uses the session.
 */
export function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    if (names.size >= namesMax) names.clear()
    name = hash('sha256', text, 'base64url')
    names.set(text, name)
  }
  return name
}
