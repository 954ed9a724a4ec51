/**
 * Writes an index database in SQLite: one connection on a file in WAL mode. A commit survives a kill of the process; a
 * power cut may take back the newest ones as a whole, cursors included, so the stream gives them again. A file beside the
 * database is locked for as long as the writer lasts, so that there is one writer.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import Sqlite from 'better-sqlite3'
import { Kysely, type RawBuilder, SqliteDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import { migrationFault, migrationsOf } from '../migrations.ts'
import type { WriteSession } from '../session.ts'
import { IndexStorageError } from '../storage-error.ts'
import { columnsOf, type RowOf, type TableName, tables } from '../tables.ts'
import type { Batch } from '../write/batch.ts'
import { onConflict, quoted } from '../write/on-conflict.ts'
import { Transactions } from '../write/transactions.ts'
import type { IndexWriter } from '../writer.ts'
import { Checkpoint } from './checkpoint.ts'
import { compiled, sqliteDialect } from './dialect.ts'
import { preparedOnce } from './prepared-once.ts'
import { lockPathOf } from './sqlite-generations.ts'
import { onSqlite } from './storage-fault.ts'

/** How long a statement waits for another process's lock before it fails. */
const busyTimeoutMs = 5000
/** The log's file is cut back to this size after that. */
const walBytesMax = 96 * 1024 * 1024
const cacheKib = 64 * 1024

export class SqliteWriter implements IndexWriter {
  readonly #lock: Sqlite.Database | undefined
  readonly #sqlite: Sqlite.Database
  readonly #transactions: Transactions
  readonly #checkpoint: Checkpoint

  private constructor(
    sqlite: Sqlite.Database,
    lock: Sqlite.Database | undefined,
    path: string,
    turnMs: number,
    threadPagesMin: number | undefined,
  ) {
    this.#lock = lock
    this.#sqlite = sqlite
    const session = new SqliteWriteSession(sqlite, turnMs)
    const checkpoint = new Checkpoint(sqlite, path, { threadPagesMin })
    this.#checkpoint = checkpoint
    this.#transactions = new Transactions(session, {
      begin() {
        onSqlite(() => sqlite.exec('begin immediate'))
        session.beginTurn()
      },
      async commit() {
        // A turn of its own, because all that was changed in memory is written now.
        await session.turn()
        onSqlite(() => sqlite.exec('commit'))
        await checkpoint.whenDue()
      },
      rollback() {
        // Some faults end the transaction by themselves.
        if (sqlite.inTransaction) sqlite.exec('rollback')
      },
    })
  }

  /**
   * Takes the lock, opens the database, creates it if need be, and brings it to the present schema.
   * @throws IndexStorageError when another writer has the lock.
   */
  static async open(path: string, turnMs: number, threadPagesMin?: number): Promise<SqliteWriter> {
    const lock = path === ':memory:' ? undefined : lockOf(path)
    let sqlite: Sqlite.Database | undefined
    try {
      sqlite = new Sqlite(path, { timeout: busyTimeoutMs })
      sqlite.pragma('journal_mode = WAL')
      sqlite.pragma('synchronous = NORMAL')
      sqlite.pragma(`journal_size_limit = ${walBytesMax}`)
      sqlite.pragma(`cache_size = -${cacheKib}`)
      sqlite.defaultSafeIntegers(true)
      await migrate(sqlite, path)
      return new SqliteWriter(sqlite, lock, path, turnMs, threadPagesMin)
    } catch (error) {
      sqlite?.close()
      lock?.close()
      throw error
    }
  }

  write<T>(work: (batch: Batch) => Promise<T>): Promise<T> {
    return this.#transactions.run(work)
  }

  async makeDurable(): Promise<void> {
    await this.#transactions.ended()
    await this.#checkpoint.shorten()
    const [result] = onSqlite(() => this.#sqlite.pragma('wal_checkpoint(FULL)')) as { busy: bigint }[] // as documented
    if (result?.busy !== 0n) throw new IndexStorageError('SQLite could not write its log back')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transactions.ended()
    this.#sqlite.close()
    this.#lock?.close()
  }
}

class SqliteWriteSession implements WriteSession {
  readonly dialect = sqliteDialect
  readonly #sqlite: Sqlite.Database
  readonly #prepare: (text: string) => Sqlite.Statement
  readonly #turnMs: number
  readonly #puts = new Map<TableName, { columns: string[]; statement: Sqlite.Statement }>()
  #turnEndsAt = 0

  constructor(sqlite: Sqlite.Database, turnMs: number) {
    this.#sqlite = sqlite
    this.#prepare = preparedOnce(sqlite)
    this.#turnMs = turnMs
  }

  beginTurn(): void {
    this.#turnEndsAt = performance.now() + this.#turnMs
  }

  readonly isTurnOver = (): boolean => performance.now() >= this.#turnEndsAt

  readonly turn = async (): Promise<void> => {
    await nextTurn()
    this.beginTurn()
  }

  readonly all = async <Row>(statement: RawBuilder<Row>): Promise<Row[]> => {
    if (this.isTurnOver()) await this.turn()
    const { text, parameters } = compiled(statement)
    return onSqlite(() => {
      const prepared = this.#prepare(text)
      if (prepared.reader) return prepared.all(...parameters) as Row[] // the statement's own type
      prepared.run(...parameters)
      return []
    })
  }

  readonly put = async <T extends TableName>(table: T, rows: readonly RowOf<T>[]): Promise<void> => {
    const { columns, statement } = this.#putOf(table)
    for (const row of rows) {
      if (this.isTurnOver()) await this.turn()
      const values = columns.map((column) => Reflect.get(row, column) as unknown)
      onSqlite(() => statement.run(...values))
    }
  }

  readonly remove = async (table: TableName, keys: readonly string[]): Promise<void> => {
    const statement = this.#prepare(`delete from "${table}" where "${String(tables[table].key[0])}" = ?`)
    for (const key of keys) {
      if (this.isTurnOver()) await this.turn()
      onSqlite(() => statement.run(key))
    }
  }

  readonly savepoint = async <T>(work: () => Promise<T>): Promise<T> => {
    this.#sqlite.exec('savepoint apart')
    try {
      const result = await work()
      this.#sqlite.exec('release apart')
      return result
    } catch (error) {
      if (this.#sqlite.inTransaction) this.#sqlite.exec('rollback to apart; release apart')
      throw error
    }
  }

  #putOf(table: TableName): { columns: string[]; statement: Sqlite.Statement } {
    const known = this.#puts.get(table)
    if (known) return known
    const columns = columnsOf(table).map(([name]) => name)
    const statement = this.#sqlite.prepare(
      `insert into "${table}" (${quoted(columns)}) values (${columns.map(() => '?').join(', ')}) ${onConflict(table)}`,
    )
    const put = { columns, statement }
    this.#puts.set(table, put)
    return put
  }
}

/** Locks the file beside a database. The lock is the operating system's: it goes when the process does. */
function lockOf(path: string): Sqlite.Database {
  const lock = new Sqlite(lockPathOf(path), { timeout: 0 })
  try {
    lock.exec('pragma locking_mode = exclusive; begin exclusive')
    return lock
  } catch (cause) {
    lock.close()
    throw new IndexStorageError(`another index writes the database at ${path}; stop it first`, { cause })
  }
}

/**
 * Brings the schema up to date in one transaction, so that a kill leaves the old one or the new one. Kysely's migrator
 * opens none on SQLite, which can take back a change of the schema like any other.
 */
async function migrate(sqlite: Sqlite.Database, path: string): Promise<void> {
  const db = new Kysely({ dialect: new SqliteDialect({ database: sqlite }) })
  sqlite.exec('begin immediate')
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrationsOf('sqlite') } })
  const { error } = await migrator.migrateToLatest()
  sqlite.exec(error === undefined ? 'commit' : 'rollback')
  if (error !== undefined) throw migrationFault(`the index database at ${path}`, error)
}
