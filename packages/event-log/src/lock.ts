import { join } from 'node:path'
import Database from 'better-sqlite3'
import { LogLockedError } from './errors.ts'

/**
 * Takes a log's directory for this process until the lock is closed. The lock is the operating system's: it goes when
 * the process does.
 * @throws LogLockedError when another process has it, and what SQLite does, such as when the disk is full.
 */
export function lockDirectory(directory: string): Database.Database {
  const lock = new Database(join(directory, 'lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    if (!(cause instanceof Database.SqliteError && cause.code === 'SQLITE_BUSY')) throw cause
    throw new LogLockedError(`the log in ${directory} is open in another process`, { cause })
  }
  return lock
}
