import { CursorStoreError } from '../errors.ts'
import {
  anotherServer,
  type ParkedEvent,
  parkedOf,
  type RunnerStore,
  type StoreOptions,
} from './runner-store.ts'

/** What is used of a database: `DatabaseSync` of `node:sqlite` has it, and that of `better-sqlite3`. */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): {
    get(...values: (string | number)[]): unknown
    all(...values: (string | number)[]): unknown[]
    run(...values: (string | number)[]): unknown
  }
}

/** Cursor and parked events in two tables of an SQLite database, which may be the one that the handlers write to. */
export class SqliteStore implements RunnerStore {
  readonly #database: SqliteDatabase
  readonly #consumer: string
  readonly #server: string

  /** Makes the tables `tributary_cursor` and `tributary_parked` when they are not there. */
  constructor(database: SqliteDatabase, { server, consumer = 'default' }: StoreOptions) {
    this.#database = database
    this.#consumer = consumer
    this.#server = server
    database.exec(
      `create table if not exists tributary_cursor
         (consumer text primary key, server text not null, cursor integer not null) strict;
       create table if not exists tributary_parked
         (consumer text not null, seq integer not null, parked text not null, primary key (consumer, seq)) strict`,
    )
  }

  /** @throws CursorStoreError when the cursor belongs to another server. */
  async load(): Promise<number | undefined> {
    const row = this.#database
      .prepare('select server, cursor from tributary_cursor where consumer = ?')
      .get(this.#consumer) as { server: string; cursor: bigint | number } | undefined // as the table is made
    if (row && row.server !== this.#server)
      throw new CursorStoreError(anotherServer(row.server, this.#server))
    // A database may be set to give integers as bigint.
    return row && Number(row.cursor)
  }

  async save(cursor: number): Promise<void> {
    this.#database
      .prepare(
        `insert into tributary_cursor (consumer, server, cursor) values (?, ?, ?)
         on conflict (consumer) do update set cursor = max(cursor, excluded.cursor)`,
      )
      .run(this.#consumer, this.#server, cursor)
  }

  /** @throws CursorStoreError when a row is damaged. */
  async parked(): Promise<ParkedEvent[]> {
    const rows = this.#database
      .prepare('select parked from tributary_parked where consumer = ? order by seq')
      .all(this.#consumer)
    return rows.map((row) => parkedOf((row as { parked: string }).parked)) // as the table is made
  }

  async park(parked: ParkedEvent): Promise<void> {
    this.#database
      .prepare(
        `insert into tributary_parked (consumer, seq, parked) values (?, ?, ?)
         on conflict (consumer, seq) do update set parked = excluded.parked`,
      )
      .run(this.#consumer, parked.event.seq, JSON.stringify(parked))
  }

  async unpark(seq: number): Promise<void> {
    this.#database
      .prepare('delete from tributary_parked where consumer = ? and seq = ?')
      .run(this.#consumer, seq)
  }
}
