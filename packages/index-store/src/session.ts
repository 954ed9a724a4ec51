/**
 * What the statements of this package need of a database: a connection inside a transaction, and the few forms that SQLite
 * and PostgreSQL spell differently. Everything else is written once.
 */
import type { RawBuilder } from 'kysely'
import type { RowOf, TableName } from './tables.ts'

export interface Dialect {
  /** The right side of `in` for a list of any length, as one parameter, so that the statement's text stays the same. */
  readonly listed: (values: readonly string[]) => RawBuilder<unknown>
  /** The same for pairs. */
  readonly listedPairs: (pairs: readonly (readonly [string, string])[]) => RawBuilder<unknown>
}

/** One connection inside a transaction. Integers come back as bigint. */
export interface Session {
  readonly dialect: Dialect
  /** Runs one statement. Throws what the database throws. */
  readonly all: <Row>(statement: RawBuilder<Row>) => Promise<Row[]>
}

/** A connection inside a transaction that writes. */
export interface WriteSession extends Session {
  /** Adds rows, or changes those with the same key. Rows that are the same already are not written. */
  readonly put: <T extends TableName>(table: T, rows: readonly RowOf<T>[]) => Promise<void>
  /** Removes rows by the first column of their key. */
  readonly remove: (table: TableName, keys: readonly string[]) => Promise<void>
  /** Work that is taken back by itself when it throws. */
  readonly savepoint: <T>(work: () => Promise<T>) => Promise<T>
  /** True when others should have their turn of the event loop. */
  readonly isTurnOver: () => boolean
  /** Notes work that takes as long as so many rows, and is about none. */
  readonly weigh?: (rows: number) => void
  /** Gives others their turn. */
  readonly turn: () => Promise<void>
}
