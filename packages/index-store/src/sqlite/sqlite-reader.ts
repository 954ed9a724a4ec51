/**
 * Reads an index database in SQLite. The file is opened when it is first needed: a reader may start before the index has
 * made its database. A file that was removed and made again is opened again, and so is one whose schema has changed: it
 * may now be of a version that this program does not read. Each read takes the generation that is the present one.
 *
 * SQLite runs on the only thread. Statements are short, and between two of them others have their turn.
 */
import { existsSync, statSync } from 'node:fs'
import Sqlite from 'better-sqlite3'
import type { RawBuilder } from 'kysely'
import { requireSchema } from '../required-schema.ts'
import { placesMax, ReadPlaces, timedOut } from '../read-places.ts'
import { IndexNotReadyError, type IndexReader, type SnapshotOptions } from '../reader.ts'
import { selectInSteps } from '../select/entries.ts'
import { type SelectEntries, viewOf } from '../select/view.ts'
import { type WindowBounds, windowFirst, windowSteps } from '../select/window.ts'
import type { IndexView } from '../select/selection.ts'
import type { Session } from '../session.ts'
import { compiled, sqliteDialect } from './dialect.ts'
import { preparedOnce } from './prepared-once.ts'
import { currentGeneration, generationPath } from './sqlite-generations.ts'
import { ReadTurns } from './read-turns.ts'
import { onSqlite } from './storage-fault.ts'

/**
 * Page caches of connections. Short pages are read one after the other, so that a few connections serve most of them. A page of
 * 500 accounts takes 5 MB, and the inner pages of a large index twice that.
 */
const cacheKib = { large: 16 * 1024, small: 1024 }
/** Connections with a large cache. They are taken first. */
const largeMax = 4
/** To select a thousand accounts takes a millisecond, and costs no more than to look into a window. */
export const windowOfSqlite: WindowBounds = { ...windowSteps, accountsMin: 1000, lookUpsPerAccount: 5 }
/** How long a read goes on before others have their turn. A statement that has begun runs to its end: about a millisecond. */
const turnMs = 2
/** How long a statement waits for a lock of another process, such as its checkpoint. */
const busyTimeoutMs = 1000
/** How often it is looked whether the files of idle connections are still there. */
const lookEveryMs = 60_000

interface Connection {
  readonly path: string
  readonly sqlite: Sqlite.Database
  readonly prepare: (text: string) => Sqlite.Statement
  /** SQLite counts it up with every change of the schema. */
  readonly readSchemaVersion: () => unknown
  /** That of the schema which was found fit to read. */
  readonly schemaVersion: unknown
  /** The file that is open: its path may come to name another one. */
  readonly inode: number
  /** It has a large cache. */
  readonly isLarge: boolean
}

export class SqliteReader implements IndexReader {
  readonly #path: string
  readonly #select: SelectEntries
  readonly #turns = new ReadTurns()
  /** The last one is taken first. */
  readonly #idle: Connection[] = []
  #large = 0
  readonly #places = new ReadPlaces(placesMax)
  readonly #looking = setInterval(() => this.#closeRemoved(), lookEveryMs).unref()
  #isClosed = false

  constructor(path: string, window: WindowBounds = windowOfSqlite) {
    this.#path = path
    this.#select = windowFirst(selectInSteps, window)
  }

  async snapshot<T>(
    { timeoutMs, signal, cause }: SnapshotOptions,
    read: (view: IndexView) => Promise<T>,
  ): Promise<T> {
    const deadline = performance.now() + timeoutMs
    await this.#places.enter(deadline, signal, cause)
    try {
      const connection = this.#connect()
      const { sqlite, prepare } = connection
      prepare('begin').run()
      try {
        return await read(viewOf(this.#session(connection, deadline, signal), this.#select))
      } finally {
        // Some faults end the transaction by themselves.
        if (sqlite.inTransaction) prepare('rollback').run()
        this.#release(connection)
      }
    } finally {
      this.#places.leave(cause)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#looking)
    for (const idle of this.#idle.splice(0)) this.#close(idle)
  }

  #session({ prepare }: Connection, deadline: number, signal: AbortSignal | undefined): Session {
    let turnEndsAt = performance.now() + turnMs
    let turnsTaken = 0
    return {
      dialect: sqliteDialect,
      all: async <Row>(statement: RawBuilder<Row>) => {
        if (performance.now() >= turnEndsAt) {
          await this.#turns.next(++turnsTaken)
          turnEndsAt = performance.now() + turnMs
        }
        signal?.throwIfAborted()
        if (performance.now() >= deadline) throw timedOut()
        const { text, parameters } = compiled(statement)
        return onSqlite(() => prepare(text).all(...parameters)) as Row[] // the statement's own type
      },
    }
  }

  #connect(): Connection {
    const path = generationPath(this.#path, currentGeneration(this.#path))
    const inode = statSync(path, { throwIfNoEntry: false })?.ino
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      let isAsFound = false
      try {
        isAsFound = idle.inode === inode && idle.readSchemaVersion() === idle.schemaVersion
      } finally {
        if (!isAsFound) this.#close(idle)
      }
      if (isAsFound) return idle
    }
    const isLarge = this.#large < largeMax
    const connection = open(path, inode, isLarge)
    if (isLarge) this.#large++
    return connection
  }

  #release(connection: Connection): void {
    if (this.#isClosed) this.#close(connection)
    else if (connection.isLarge) this.#idle.push(connection)
    else this.#idle.unshift(connection)
  }

  /** The room of a file that was removed is free only when nobody has it open. */
  #closeRemoved(): void {
    for (const idle of this.#idle.splice(0)) {
      if (existsSync(idle.path)) this.#idle.push(idle)
      else this.#close(idle)
    }
  }

  #close({ sqlite, isLarge }: Connection): void {
    sqlite.close()
    if (isLarge) this.#large--
  }
}

function open(path: string, inode: number | undefined, isLarge: boolean): Connection {
  if (inode === undefined || !existsSync(path))
    throw new IndexNotReadyError(`no index database at ${path} yet`)
  const sqlite = onSqlite(() => new Sqlite(path, { readonly: true, timeout: busyTimeoutMs }), path)
  try {
    const found = onSqlite(() => appliedMigrations(sqlite), path)
    requireSchema(found)
    sqlite.defaultSafeIntegers(true)
    sqlite.pragma(`cache_size = -${isLarge ? cacheKib.large : cacheKib.small}`)
    const readVersion = sqlite.prepare('pragma schema_version').pluck()
    const readSchemaVersion = (): unknown => onSqlite(() => readVersion.get(), path)
    const schemaVersion = readSchemaVersion()
    return { path, sqlite, prepare: preparedOnce(sqlite), readSchemaVersion, schemaVersion, inode, isLarge }
  } catch (error) {
    sqlite.close()
    throw error
  }
}

function appliedMigrations(sqlite: Sqlite.Database): string[] {
  const hasTable = sqlite.prepare("select 1 from sqlite_schema where name = 'kysely_migration'").get()
  if (hasTable === undefined) return []
  return sqlite.prepare<[], string>('select name from kysely_migration order by name').pluck().all()
}
