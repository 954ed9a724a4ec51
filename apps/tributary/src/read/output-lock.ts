/** One run at a time writes into an output: two would each add every event. */
import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { OutputFileError } from './output-file.ts'

/** SQLITE_BUSY: somebody else holds the lock. */
const sqliteBusy = 5

/**
 * Takes the output at `path` for this run, by a lock on a file beside it, which is removed at the end. The lock is the
 * operating system's: it goes when the process does, however it ends. Where no lock can be made, such as in a directory
 * that is not there, the output cannot be made either, and says why.
 * @throws OutputFileError when another run has it.
 */
export function lockOutput(path: string): Disposable {
  const file = `${resolve(path)}.lock`
  let lock: DatabaseSync | undefined
  try {
    lock = new DatabaseSync(file, { timeout: 0 })
    // No journal is needed, because nothing is written into the file.
    lock.exec('PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    lock?.close()
    lock = undefined
    if (cause instanceof Error && 'errcode' in cause && cause.errcode === sqliteBusy)
      throw new OutputFileError(`another run writes into ${path}; wait for its end, or name another file`, {
        cause,
      })
  }
  return {
    [Symbol.dispose]() {
      if (lock === undefined) return
      try {
        // Before the lock goes, so that the file of the next run stays.
        rmSync(file, { force: true })
      } catch {
        // Windows does not remove a file that is open. An empty one beside the output does no harm.
      }
      lock.close()
    },
  }
}
