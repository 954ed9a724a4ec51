import type { OnRefused } from '../refusals.ts'
import type { RefusalQuery, RefusalRow, RefusalStore } from './refusal-rows.ts'

const flushMs = 1000
/** Rows of one source in one flush; more are only counted, so that a flood costs nothing but its count. */
const rowsPerFlushMax = 200

/** What was refused lately, for operators to read: who sent it, where, and why, never what it held. */
export class RefusalLog {
  readonly #store: RefusalStore
  readonly #fail: (error: Error) => void
  readonly #timer: NodeJS.Timeout
  #pending = new Map<string, Omit<RefusalRow, 'id'>[]>()
  /** The newest write, which the next one waits for. */
  #written: Promise<void> = Promise.resolve()
  #writes = 0
  /** Refusals that were counted and not kept. */
  skipped = 0

  /** @param fail told when the store refuses a write. */
  constructor(store: RefusalStore, fail: (error: Error) => void) {
    this.#store = store
    this.#fail = fail
    this.#timer = setInterval(() => {
      if (this.#writes === 0) void this.flush()
    }, flushMs).unref()
  }

  readonly note: OnRefused = (source, reason, detail, event = {}) => {
    let rows = this.#pending.get(source.host)
    if (!rows) this.#pending.set(source.host, (rows = []))
    if (rows.length >= rowsPerFlushMax) this.skipped++
    else {
      const { did = null, upstreamSeq = null, type } = event
      const kind = type === undefined ? null : type.slice(0, 32)
      const { host } = source
      rows.push({ atMs: Date.now(), host, reason, kind, did, upstreamSeq, detail: detail.slice(0, 256) })
    }
  }

  /** Resolves when what was noted is stored. Called by itself every second, while no write is under way. */
  async flush(nowMs: number = Date.now()): Promise<void> {
    if (this.#pending.size > 0) this.#written = this.#write(nowMs)
    await this.#written
  }

  /** Newest first, of the last seven days. */
  async list(query: RefusalQuery, nowMs: number = Date.now()): Promise<RefusalRow[]> {
    await this.flush(nowMs)
    return await this.#store.list(query, nowMs)
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  async #write(nowMs: number): Promise<void> {
    const rows = [...this.#pending.values()].flat()
    this.#pending = new Map()
    const before = this.#written
    this.#writes++
    await before
    try {
      await this.#store.add(rows, nowMs)
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)))
    }
    this.#writes--
  }
}
