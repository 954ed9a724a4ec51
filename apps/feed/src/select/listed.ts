import { sql, type RawBuilder } from 'kysely'

/** The right side of `in` for a list of any length, as one parameter, so that the statement's text stays the same. */
export function listed(values: readonly string[]): RawBuilder<unknown> {
  return sql`(select value from json_each(${JSON.stringify(values)}))`
}
