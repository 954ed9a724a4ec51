import Sqlite from 'better-sqlite3'
import { IndexStorageError } from '../storage-error.ts'

/** Runs calls of SQLite. That the file could not be read or written is thrown as IndexStorageError, which names it if it is given. */
export function onSqlite<T>(calls: () => T, file?: string): T {
  try {
    return calls()
  } catch (error) {
    if (!(error instanceof Sqlite.SqliteError)) throw error
    if (/^SQLITE_(?:CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(error.code)) throw error
    const place = file === undefined ? '' : ` at ${file}`
    throw new IndexStorageError(`SQLite failed${place}: ${error.code}: ${error.message}`, { cause: error })
  }
}
