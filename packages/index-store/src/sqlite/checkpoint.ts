import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type Sqlite from 'better-sqlite3'
import { IndexStorageError } from '../storage-error.ts'
import { onSqlite } from './storage-fault.ts'

/** Pages of the log before it is written back: 64 MB, so that a page changed often is not written each time. */
const pagesDefault = 16_384
/** So many must be new since the last time, when a reader kept the log from beginning anew. */
const threadPagesMinDefault = 2048

export interface CheckpointOptions {
  /** Pages of the log before it is written back, 4 KB each. */
  pages?: number | undefined
  /** New pages for which a thread is begun. */
  threadPagesMin?: number | undefined
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
 */
export class Checkpoint {
  readonly #path: string
  readonly #pages: number
  readonly #threadPagesMin: number
  readonly #state: Sqlite.Statement<[], LogState>

  constructor(
    sqlite: Sqlite.Database,
    path: string,
    { pages = pagesDefault, threadPagesMin = threadPagesMinDefault }: CheckpointOptions = {},
  ) {
    this.#path = path
    this.#pages = pages
    this.#threadPagesMin = threadPagesMin
    sqlite.pragma('wal_autocheckpoint = 0')
    this.#state = sqlite.prepare<[], LogState>('pragma wal_checkpoint(NOOP)').safeIntegers(false)
  }

  /**
   * Writes the log back when it is long, as far as readers let it.
   * @throws IndexStorageError
   */
  async whenDue(): Promise<void> {
    const { log } = this.#read()
    if (log >= this.#pages) await this.shorten()
  }

  /**
   * Writes the log back when much of it is new, as far as readers let it.
   * @throws IndexStorageError
   */
  async shorten(): Promise<void> {
    const { log, checkpointed } = this.#read()
    if (log - checkpointed < this.#threadPagesMin) return
    const thread = new Worker(new URL('checkpoint-thread.ts', import.meta.url), { workerData: this.#path })
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
