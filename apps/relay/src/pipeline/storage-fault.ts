import Database from 'better-sqlite3'
import { LogWriteError } from '@tributary/event-log'

/** Whether a disk or database refused what must not be lost: the process ends, since going on could acknowledge it. */
export function isStorageFault(error: unknown): boolean {
  return error instanceof LogWriteError || error instanceof Database.SqliteError
}
