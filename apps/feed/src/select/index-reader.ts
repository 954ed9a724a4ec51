import { statSync } from 'node:fs'
import { openIndexReader, type IndexConnection, type IndexDatabase } from '@tributary/index-store'
import type { Kysely } from 'kysely'

/**
 * The index database, opened when it is first needed: a feed may start before the index has made its database, and
 * answers errors until then. A database that was removed and made anew is opened anew, and so is one whose schema has
 * changed: it may now be of a version that this program does not read.
 */
export class IndexReader implements AsyncDisposable {
  readonly #path: string
  #connection: IndexConnection | undefined
  /** The file that is open: its path may come to name another one. */
  #inode: number | undefined
  #schemaVersion: unknown

  constructor(path: string) {
    this.#path = path
  }

  /** Runs one read. Throws IndexNotReadyError while there is no database of this version, and what the read throws. */
  read<T>(query: (db: Kysely<IndexDatabase>) => Promise<T>): Promise<T> {
    return query(this.#open().db)
  }

  /** Throws as `read` does when the database cannot be read now. */
  probe(): void {
    this.#open().sqlite.prepare('select 1 from entries limit 1').get()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection?.[Symbol.asyncDispose]()
  }

  #open(): IndexConnection {
    const inode = statSync(this.#path, { throwIfNoEntry: false })?.ino
    if (
      inode !== this.#inode ||
      (this.#connection && schemaVersionOf(this.#connection) !== this.#schemaVersion)
    ) {
      this.#connection?.sqlite.close()
      this.#connection = undefined
    }
    if (this.#connection === undefined) {
      this.#connection = openIndexReader(this.#path)
      this.#schemaVersion = schemaVersionOf(this.#connection)
    }
    this.#inode = inode
    return this.#connection
  }
}

/** SQLite counts it up with every change of the schema. */
function schemaVersionOf({ sqlite }: IndexConnection): unknown {
  return sqlite.pragma('schema_version', { simple: true })
}
