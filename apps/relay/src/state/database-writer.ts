import { Worker, type TransferListItem } from 'node:worker_threads'
import type { NoticeQuery, NoticeRow, NoticeStore } from '../policy/notice-rows.ts'
import type { RefusalQuery, RefusalRow, RefusalStore } from '../policy/refusal-rows.ts'
import type { StateWrite } from './state-write.ts'

/** What the thread is asked, and of which file. */
export type DatabaseRequest = { path: string } & (
  | { ask: 'write-state'; rows: StateWrite }
  | { ask: 'add-refusals'; rows: Omit<RefusalRow, 'id'>[]; nowMs: number }
  | { ask: 'list-refusals'; query: RefusalQuery; nowMs: number }
  | { ask: 'add-notice'; row: Omit<NoticeRow, 'id'>; share: string }
  | { ask: 'list-notices'; query: NoticeQuery }
)

interface Waiting {
  resolve: (answer: unknown) => void
  reject: (error: Error) => void
}

/** How long a thread without requests is kept. An empty one takes 9 MB, and beginning one costs 30 ms of processor time. */
const idleMs = 10_000

/** The thread that writes databases. It begins with a request, and ends when none came for a while. */
export class DatabaseWriter {
  readonly #idleMs: number
  #worker: Worker | undefined
  #failure: Error | undefined
  #idle: NodeJS.Timeout | undefined
  #ended: Promise<unknown> = Promise.resolve()
  /** Requests without an answer, the oldest first. */
  readonly #waiting: Waiting[] = []
  /** The answer to the newest request, which comes after all others. */
  #newest: Promise<unknown> = Promise.resolve()

  /** @param options.idleMs how long a thread without requests is kept, in milliseconds. */
  constructor(options: { idleMs?: number } = {}) {
    this.#idleMs = options.idleMs ?? idleMs
  }

  /** A thread waits for requests, or deals with one. */
  get hasThread(): boolean {
    return this.#worker !== undefined
  }

  /**
   * Resolves when the transaction is done, with whether it is synced as well, and all before it.
   * @throws what the database threw, then and for every request after it.
   */
  async writeState(path: string, rows: StateWrite): Promise<boolean> {
    // `AccountRows.pack` takes the memory for each of them alone.
    const memory = rows.accounts.map(({ bytes }) => bytes.buffer as ArrayBuffer)
    return (await this.#ask({ path, ask: 'write-state', rows }, memory)) as boolean // as `rowWriter` returns it
  }

  refusals(path: string): RefusalStore {
    return {
      add: async (rows, nowMs) => void (await this.#ask({ path, ask: 'add-refusals', rows, nowMs })),
      list: async (query, nowMs) =>
        (await this.#ask({ path, ask: 'list-refusals', query, nowMs })) as RefusalRow[], // as the thread lists them
    }
  }

  notices(path: string): NoticeStore {
    return {
      add: async (row, share) => void (await this.#ask({ path, ask: 'add-notice', row, share })),
      list: async (query) => (await this.#ask({ path, ask: 'list-notices', query })) as NoticeRow[], // as above
    }
  }

  /** Ends the thread when it has answered everything. */
  async close(): Promise<void> {
    await this.#newest.catch(() => undefined) // told to who asked
    this.#end()
    await this.#ended
  }

  async #ask(request: DatabaseRequest, memory: TransferListItem[] = []): Promise<unknown> {
    if (this.#failure) throw this.#failure
    clearTimeout(this.#idle)
    this.#worker ??= this.#start()
    this.#worker.postMessage(request, memory)
    this.#newest = new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
    return await this.#newest
  }

  #start(): Worker {
    const worker = new Worker(new URL('./database-thread.ts', import.meta.url))
    worker.on('message', (answer: unknown) => {
      this.#waiting.shift()?.resolve(answer)
      if (this.#waiting.length === 0) this.#idle = setTimeout(() => this.#end(), this.#idleMs).unref()
    })
    worker.on('error', (cause) => {
      this.#failure = cause instanceof Error ? cause : new Error(String(cause))
      for (const { reject } of this.#waiting.splice(0)) reject(this.#failure)
    })
    return worker
  }

  /** Ends the thread, which has no request. */
  #end(): void {
    clearTimeout(this.#idle)
    const ended = this.#worker?.terminate()
    this.#worker = undefined
    if (ended) this.#ended = Promise.all([this.#ended, ended])
  }
}
