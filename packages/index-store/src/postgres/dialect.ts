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
