import { CursorStoreError } from '../errors.ts'
import {
  anotherServer,
  type ParkedEvent,
  parkedOf,
  type RunnerStore,
  type StoreOptions,
} from './runner-store.ts'

/** What is used of a database: `Pool` and `Client` of `pg` have it. */
export interface PostgresDatabase {
  query(text: string, values?: (string | number)[]): Promise<{ rows: Record<string, unknown>[] }>
}

/** So that two that start at a time do not both make the tables. */
const tablesLock = 7_201_145_990

/** Cursor and parked events in two tables of a PostgreSQL database, which may be the one that the handlers write to. */
export class PostgresStore implements RunnerStore {
  readonly #database: PostgresDatabase
  readonly #consumer: string
  readonly #server: string

  private constructor(database: PostgresDatabase, { server, consumer = 'default' }: StoreOptions) {
    this.#database = database
    this.#consumer = consumer
    this.#server = server
  }

  /** Makes the tables `tributary_cursor` and `tributary_parked` when they are not there. */
  static async open(database: PostgresDatabase, options: StoreOptions): Promise<PostgresStore> {
    // Statements without values are one transaction, which the lock lasts for.
    await database.query(
      `select pg_advisory_xact_lock(${tablesLock});
       create table if not exists tributary_cursor
         (consumer text primary key, server text not null, cursor bigint not null);
       create table if not exists tributary_parked
         (consumer text not null, seq bigint not null, parked text not null, primary key (consumer, seq))`,
    )
    return new PostgresStore(database, options)
  }

  /** @throws CursorStoreError when the cursor belongs to another server. */
  async load(): Promise<number | undefined> {
    const { rows } = await this.#database.query(
      'select server, cursor from tributary_cursor where consumer = $1',
      [this.#consumer],
    )
    const [row] = rows
    if (row === undefined) return undefined
    const server = String(row['server'])
    if (server !== this.#server) throw new CursorStoreError(anotherServer(server, this.#server))
    return Number(row['cursor'])
  }

  async save(cursor: number): Promise<void> {
    await this.#database.query(
      `insert into tributary_cursor (consumer, server, cursor) values ($1, $2, $3)
       on conflict (consumer) do update set cursor = greatest(tributary_cursor.cursor, excluded.cursor)`,
      [this.#consumer, this.#server, cursor],
    )
  }

  /** @throws CursorStoreError when a row is damaged. */
  async parked(): Promise<ParkedEvent[]> {
    const { rows } = await this.#database.query(
      'select parked from tributary_parked where consumer = $1 order by seq',
      [this.#consumer],
    )
    return rows.map(({ parked }) => parkedOf(String(parked)))
  }

  async park(parked: ParkedEvent): Promise<void> {
    await this.#database.query(
      `insert into tributary_parked (consumer, seq, parked) values ($1, $2, $3)
       on conflict (consumer, seq) do update set parked = excluded.parked`,
      [this.#consumer, parked.event.seq, JSON.stringify(parked)],
    )
  }

  async unpark(seq: number): Promise<void> {
    await this.#database.query('delete from tributary_parked where consumer = $1 and seq = $2', [
      this.#consumer,
      seq,
    ])
  }
}
