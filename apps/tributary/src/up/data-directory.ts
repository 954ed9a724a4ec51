/**
 * The data directory of `tributary up`: locked by the process that runs on it, with the secrets that its services share,
 * and a note of where the services answer for `tributary status`.
 */
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeDirectory } from '@tributary/settings'

/** Another process runs on the directory. */
export class DirectoryLockedError extends Error {
  override readonly name = 'DirectoryLockedError'
}

/** SQLITE_BUSY: somebody else holds the lock. */
const sqliteBusy = 5

/** What `tributary status` reads. */
export interface RunNote {
  pid: number
  /** Labelers whose labels count in the feed. */
  labelers?: readonly string[]
  services: {
    name: string
    url: string
    /** The process that is ready, and since when it is. */
    pid?: number
    since?: string
    /** Why it does not run, when it does not. */
    fault?: string
  }[]
}

export class DataDirectory implements Disposable {
  readonly path: string
  readonly #lock: DatabaseSync

  /** Creates the directory when it is missing, and takes it for this process. Throws DirectoryLockedError. */
  constructor(path: string) {
    makeDirectory(path)
    // The feed keeps its used tokens beside the index, and may be there first.
    makeDirectory(join(path, 'index'))
    this.path = path
    this.#lock = new DatabaseSync(join(path, 'lock'), { timeout: 0 })
    try {
      // The lock is the operating system's: it goes when the process does, however it ends.
      this.#lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
    } catch (cause) {
      this.#lock.close()
      if (!(cause instanceof Error && 'errcode' in cause && cause.errcode === sqliteBusy)) throw cause
      throw new DirectoryLockedError(
        `${path} is in use by another tributary: stop that one, or give another --data-directory`,
        { cause },
      )
    }
  }

  /**
   * A secret of this directory, made once and readable by the owner alone: `archive-key`, with which our own index
   * reads the archive, or `operator-token`.
   */
  secret(name: 'archive-key' | 'operator-token'): { file: string; value: string } {
    const file = join(this.path, name)
    // An empty one is what a power cut may leave of a file that was being made.
    if (!statSync(file, { throwIfNoEntry: false })?.size) {
      const secret = randomBytes(32).toString('base64url')
      writeFileSync(`${file}.new`, `${secret}\n`, { mode: 0o600, flush: true })
      renameSync(`${file}.new`, file)
    }
    return { file, value: readFileSync(file, 'utf8').trim() }
  }

  noteRun(note: RunNote): void {
    const file = noteFile(this.path)
    // A reader at this moment sees the old one or the new one.
    writeFileSync(`${file}.new`, JSON.stringify(note))
    renameSync(`${file}.new`, file)
  }

  [Symbol.dispose](): void {
    rmSync(noteFile(this.path), { force: true })
    this.#lock.close()
  }
}

/** Where the services of this directory answer; undefined when nothing runs on it. */
export function readRunNote(path: string): RunNote | undefined {
  const file = noteFile(path)
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  // A power cut may leave an empty one, and whoever made it has ended then.
  return text === '' ? undefined : (JSON.parse(text) as RunNote) // written above
}

function noteFile(path: string): string {
  return join(path, 'running.json')
}
