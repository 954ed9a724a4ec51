/**
 * Opening the index database: one writer (apps/index), any number of readers (apps/feed), on one SQLite file in WAL mode.
 * A reader sees whole transactions only and never waits for the writer.
 */
import Sqlite from 'better-sqlite3'
import { Kysely, SqliteDialect } from 'kysely'
import { Migrator } from 'kysely/migration'
import { migrations } from './migrations.ts'
import type { IndexDatabase } from './schema.ts'
import { type Steps, WriteTurns } from './write-turns.ts'

/** How long a statement waits for another process's lock before it fails. */
const busyTimeoutMs = 5000
/** Pages of the write-ahead log before it is folded back: 64 MB, so that a page changed often is not copied each time. */
const walPages = 16_384
/** The log's file is cut back to this size after that. */
const walBytesMax = 96 * 1024 * 1024
/** Page cache per connection. */
const cacheKib = 64 * 1024
/** How long a transaction goes on before the event loop gets its turn. */
const turnMsDefault = 20

/**
 * True for what SQLite threw because the file could not be read or written. A statement that is given a value that it
 * cannot take throws something else.
 */
export function isStorageFault(error: unknown): boolean {
  return (
    error instanceof Sqlite.SqliteError && !/^SQLITE_(?:CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(error.code)
  )
}

/** An open index database. `db` and `sqlite` are one connection; integers come back as bigint on both. */
export interface IndexConnection extends AsyncDisposable {
  readonly db: Kysely<IndexDatabase>
  readonly sqlite: Sqlite.Database
}

/** A connection that writes. Everything that is written goes through one of its two methods. */
export interface IndexWriter extends IndexConnection {
  /** Runs work in a transaction of its own that gives up the event loop between its steps; others wait for its end. */
  write<T>(work: () => Steps<T>): Promise<T>
  /** The same for work of one short step. */
  writeAtOnce<T>(work: () => T): Promise<T>
}

/**
 * Opens the database for writing, creates it if need be and brings it to the present schema. `:memory:` gives one that
 * goes with the connection. Only one process may have it open this way. A commit survives a kill of the process; a power
 * cut may take back the newest ones as a whole, cursors included, so the stream gives them again. `turnMs` is how long a transaction goes on
 * before the event loop gets its turn.
 */
export async function openIndexWriter(
  path: string,
  { turnMs = turnMsDefault }: { turnMs?: number } = {},
): Promise<IndexWriter> {
  const sqlite = new Sqlite(path, { timeout: busyTimeoutMs })
  try {
    sqlite.pragma('journal_mode = WAL')
    sqlite.pragma('synchronous = NORMAL')
    sqlite.pragma(`journal_size_limit = ${walBytesMax}`)
    sqlite.pragma(`wal_autocheckpoint = ${walPages}`)
    const connection = connect(sqlite)
    await migrate(connection, path)
    const turns = new WriteTurns(sqlite, turnMs)
    return {
      ...connection,
      write: (work) => turns.run(work),
      writeAtOnce: (work) => turns.run(() => oneStep(work)),
    }
  } catch (error) {
    sqlite.close()
    throw error
  }
}

function* oneStep<T>(work: () => T): Steps<T> {
  yield
  return work()
}

/**
 * Brings the schema up to date in one transaction, so that a kill leaves the old one or the new one. Kysely's migrator
 * opens none on SQLite, which can take back a change of the schema like any other.
 */
async function migrate({ db, sqlite }: IndexConnection, path: string): Promise<void> {
  sqlite.exec('begin immediate')
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } })
  const { error } = await migrator.migrateToLatest()
  sqlite.exec(error === undefined ? 'commit' : 'rollback')
  if (error !== undefined)
    throw new Error(`the index database at ${path} could not be migrated`, { cause: error })
}

function connect(sqlite: Sqlite.Database): IndexConnection {
  sqlite.defaultSafeIntegers(true)
  sqlite.pragma(`cache_size = -${cacheKib}`)
  const db = new Kysely<IndexDatabase>({ dialect: new SqliteDialect({ database: sqlite }) })
  return {
    db,
    sqlite,
    async [Symbol.asyncDispose]() {
      await db.destroy()
      sqlite.close()
    },
  }
}
