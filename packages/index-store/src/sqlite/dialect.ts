import {
  DummyDriver,
  Kysely,
  type RawBuilder,
  sql,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import type { Dialect } from '../session.ts'

export const sqliteDialect: Dialect = {
  listed: (values) => sql`(select value from json_each(${JSON.stringify(values)}))`,
  listedPairs: (pairs) => sql`(select value ->> 0, value ->> 1 from json_each(${JSON.stringify(pairs)}))`,
}

/** Makes text and parameters of statements; runs nothing. */
const compiler = new Kysely<never>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
})

export function compiled(statement: RawBuilder<unknown>): { text: string; parameters: readonly unknown[] } {
  const { sql: text, parameters } = statement.compile(compiler)
  return { text, parameters }
}
