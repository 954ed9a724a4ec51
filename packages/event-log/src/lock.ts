import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LogLockedError } from './errors.ts'

/**
 * Takes a log's directory for this process until the lock is closed. The lock is the operating system's: it goes when
 * the process does.
 * @throws LogLockedError when another process has it.
 */
export function lockDirectory(directory: string): DatabaseSync {
  const lock = new DatabaseSync(join(directory, 'lock'), { timeout: 0 })
  try {
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    throw new LogLockedError(`the log in ${directory} is open in another process`, { cause })
  }
  return lock
}
