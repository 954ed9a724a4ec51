import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LogLockedError } from './errors.ts'

/** SQLITE_BUSY: somebody else holds the lock. */
const sqliteBusy = 5

/**
 * Takes a log's directory for this process until the lock is closed. The lock is the operating system's: it goes when
 * the process does.
 * @throws LogLockedError when another process has it, and what SQLite does, such as when the disk is full.
 */
export function lockDirectory(directory: string): DatabaseSync {
  const lock = new DatabaseSync(join(directory, 'lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    if (!(cause instanceof Error && 'errcode' in cause && cause.errcode === sqliteBusy)) throw cause
    throw new LogLockedError(`the log in ${directory} is open in another process`, { cause })
  }
  return lock
}
