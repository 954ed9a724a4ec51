import { LogWriteError } from './errors.ts'

/**
 * Whether a log or a database refused what must not be lost. Then the process ends, because going on could acknowledge
 * it. SQLite is told by the name of its errors, which both of its bindings give.
 */
export function isStorageFault(error: unknown): boolean {
  return error instanceof LogWriteError || (error instanceof Error && error.name === 'SqliteError')
}
