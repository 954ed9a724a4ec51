/**
 * What the statements of this package need of a database: a connection inside a transaction, and the few forms that SQLite
 * and PostgreSQL spell differently. Everything else is written once.
 */
import type { RawBuilder } from 'kysely'

export interface Dialect {
  /** The right side of `in` for a list of any length, as one parameter, so that the statement's text stays the same. */
  readonly listed: (values: readonly string[]) => RawBuilder<unknown>
}

/** One connection inside a transaction. Integers come back as bigint. */
export interface Session {
  readonly dialect: Dialect
  /** Runs one statement. Throws what the database throws. */
  readonly all: <Row>(statement: RawBuilder<Row>) => Promise<Row[]>
}
