import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type Sqlite from 'better-sqlite3'
import { IndexStorageError } from '../storage-error.ts'
import { onSqlite } from './storage-fault.ts'

/** Pages of the log before it is written back: 64 MB, so that a page changed often is not written each time. */
const pagesDefault = 16_384
/** So many must be new since the last time, when a reader kept the log from beginning anew. */
const threadPagesMinDefault = 2048
/** The log is emptied when it has so many times `pages`, 256 MB, and after a reader has kept it, when it has so many more. */
const emptiedTimes = 4
/** Time for readers to end then: those that read already, then those that began meanwhile. A page may take a minute. */
const readersMsDefault = 120_000

export interface CheckpointOptions {
  /** Pages of the log before it is written back, 4 KB each. */
  pages?: number | undefined
  /** New pages for which a thread is begun. */
  threadPagesMin?: number | undefined
  /** How long the writer waits for readers when the log is emptied. */
  readersMs?: number | undefined
}

/** What a thread is given. */
export interface CheckpointWork {
  readonly path: string
  /** `PASSIVE` waits for nobody: what a reader still needs stays in the log for the next time. */
  readonly mode: 'PASSIVE' | 'TRUNCATE'
  readonly readersMs: number
}

interface LogState {
  /** Pages in the log. */
  readonly log: number
  /** How many of them are in the database too. */
  readonly checkpointed: number
}

/**
 * Writes the write-ahead log of a database back into it, on a thread of its own, because a disk may take a second to sync
 * 64 MB. The writer waits meanwhile, and its event loop does not; what it writes next begins the log anew. A thread takes
 * 40 ms to begin and 9 MB, so each does this once.
 *
 * The log does not begin again while somebody reads it, so pages that overlap would let it grow without end. When it has
 * become four times as long, the writer waits until all readers have ended that began before all of it was written back.
 * Later ones read the database alone. No reader waits, because nothing is written meanwhile.
 */
export class Checkpoint {
  readonly #path: string
  readonly #pages: number
  readonly #threadPagesMin: number
  readonly #readersMs: number
  readonly #state: Sqlite.Statement<[], LogState>
  /** Pages that readers have kept in the log when it was last to be emptied. */
  #kept = 0

  constructor(
    sqlite: Sqlite.Database,
    path: string,
    {
      pages = pagesDefault,
      threadPagesMin = threadPagesMinDefault,
      readersMs = readersMsDefault,
    }: CheckpointOptions = {},
  ) {
    this.#path = path
    this.#pages = pages
    this.#threadPagesMin = threadPagesMin
    this.#readersMs = readersMs
    sqlite.pragma('wal_autocheckpoint = 0')
    this.#state = sqlite.prepare<[], LogState>('pragma wal_checkpoint(NOOP)').safeIntegers(false)
  }

  /**
   * Writes the log back when it is long, as far as readers let it, and waits for them when it is very long.
   * @throws IndexStorageError
   */
  async whenDue(): Promise<void> {
    const { log } = this.#read()
    if (log < this.#kept) this.#kept = 0
    if (log - this.#kept >= emptiedTimes * this.#pages) {
      await this.#run('TRUNCATE')
      this.#kept = this.#read().log
    } else if (log >= this.#pages) await this.shorten()
  }

  /**
   * Writes the log back when much of it is new, as far as readers let it.
   * @throws IndexStorageError
   */
  async shorten(): Promise<void> {
    const { log, checkpointed } = this.#read()
    if (log - checkpointed < this.#threadPagesMin) return
    await this.#run('PASSIVE')
  }

  async #run(mode: CheckpointWork['mode']): Promise<void> {
    const workerData: CheckpointWork = { path: this.#path, mode, readersMs: this.#readersMs }
    const thread = new Worker(new URL('checkpoint-thread.ts', import.meta.url), { workerData })
    try {
      await once(thread, 'exit')
    } catch (cause) {
      throw new IndexStorageError('SQLite could not write its log back', { cause })
    }
  }

  #read(): LogState {
    return onSqlite(() => this.#state.get()) ?? { log: 0, checkpointed: 0 }
  }
}
