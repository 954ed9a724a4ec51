/**
 * Copies of a data directory, made while the stream runs. The order is what makes a copy fit together: first the state,
 * which trails the rows; then all rows that it may account for, in sealed segments; then the log, which meanwhile drops
 * nothing, so that it has every row that the copied state does not account for.
 *
 * Sealed segments are never written to again, so a copy on the same file system has them as further names of the same
 * files. A copy has its name only when it is whole and durable.
 */
import { constants } from 'node:fs'
import { copyFile, link, mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { backUpLog } from '@tributary/event-log'
import Database from 'better-sqlite3'
import type { StateDatabase } from '../state-database.ts'
import type { Archive } from './archive.ts'
import { noteLost, type LostSeqs } from './lost-rows.ts'

export interface BackupReport {
  name: string
  /** Where it is: a data directory of its own. */
  directory: string
  /** Rows up to here are in the copy. */
  lastSeq: number
  segments: number
}

/** A copy of that name is there, or another one is being made. Nothing was done. */
export class BackupRefusedError extends Error {
  override readonly name = 'BackupRefusedError'
  readonly reason: 'exists' | 'running'

  constructor(reason: 'exists' | 'running', message: string) {
    super(message)
    this.reason = reason
  }
}

export interface BackupsOptions {
  dataDirectory: string
  database: StateDatabase
  archive: Pick<Archive, 'keepingLog' | 'seal' | 'segments'>
}

export class Backups {
  readonly #options: BackupsOptions
  #isRunning = false

  constructor(options: BackupsOptions) {
    this.#options = options
  }

  /**
   * Makes a copy under `backups` in the data directory.
   * @param name of one directory.
   * @throws BackupRefusedError, and what the disk throws; then nothing of the copy is left.
   */
  async make(name: string): Promise<BackupReport> {
    const directory = join(this.#options.dataDirectory, 'backups', name)
    if (this.#isRunning) throw new BackupRefusedError('running', 'another backup is being made')
    this.#isRunning = true
    try {
      if (await isThere(directory)) throw new BackupRefusedError('exists', `${directory} exists already`)
      return { name, directory, ...(await this.#makeAt(directory)) }
    } finally {
      this.#isRunning = false
    }
  }

  async #makeAt(directory: string): Promise<{ lastSeq: number; segments: number }> {
    const unfinished = `${directory}.tmp`
    try {
      // A stop may have left one.
      await rm(unfinished, { recursive: true, force: true })
      await mkdir(join(unfinished, 'segments'), { recursive: true })
      const copied = await this.#options.archive.keepingLog(async () => await this.#copy(unfinished))
      await rename(unfinished, directory)
      await syncPath(dirname(directory))
      return copied
    } catch (error) {
      await rm(unfinished, { recursive: true, force: true }).catch(() => undefined) // the first fault is the one to tell
      throw error
    }
  }

  async #copy(target: string): Promise<{ lastSeq: number; segments: number }> {
    const { dataDirectory, database, archive } = this.#options
    const state = join(target, 'state.sqlite')
    await database.backup(state)
    await syncPath(state)
    await archive.seal()
    const { sealed } = archive.segments
    for (const { name } of sealed)
      await linkOrCopy(join(dataDirectory, 'segments', name), join(target, 'segments', name))
    await syncPath(join(target, 'segments'))
    const logged = await backUpLog(join(dataDirectory, 'log'), join(target, 'log'))
    const lastSeq = Math.max(logged.lastSeq, sealed.at(-1)?.header.maxSeq ?? 0)
    noteSkipped(state, { afterSeq: lastSeq, throughSeq: logged.limit - 1 })
    await syncPath(state)
    await syncPath(target)
    return { lastSeq, segments: sealed.length }
  }
}

/**
 * The copy tells consumers that were further which rows it lacks. Its first start moves the end of these. It is made durable
 * afterwards, aside.
 */
function noteSkipped(state: string, lost: LostSeqs): void {
  const database = new Database(state)
  try {
    database.pragma('synchronous = OFF')
    noteLost(database, lost)
  } finally {
    database.close()
  }
}

/** Gives a file that does not change another name, or copies it where that cannot be. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'EXDEV' && code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EMLINK') throw error
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    await syncPath(to)
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
    throw error
  }
}

/** Makes a file, or the names in a directory, outlast a power cut. */
async function syncPath(path: string): Promise<void> {
  await using file = await open(path, 'r')
  await file.sync()
}
