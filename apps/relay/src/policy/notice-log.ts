/**
 * What happened to the relay and its sources that an operator should hear of: outages, pauses, quotas, refused crawl
 * requests. Each is a line in the log and a row that can be listed. Others can cause notices at will, so they are
 * bounded per share (a source, all crawl requests, the relay itself): so many an hour, and so many rows.
 */
import { KeyedRate } from '@tributary/rates'
import type { Logger } from '@tributary/telemetry'
import type { NoticeKind, NoticeQuery, NoticeRow, NoticeStore } from './notice-rows.ts'

const rowsPerHour = { max: 30, windowMs: 3_600_000, keysMax: 10_000 }
const warnings = new Set<NoticeKind>([
  'source-unreachable',
  'source-stuck',
  'source-throttled',
  'events-lost',
  'source-renumbered',
  'quota-reached',
  'reading-paused',
])

export class NoticeLog {
  readonly #store: NoticeStore
  readonly #logger: Logger
  readonly #fail: (error: Error) => void
  readonly #nowMs: () => number
  readonly #rate = new KeyedRate<string>(rowsPerHour)
  /** Notices of each share that were left out since its last row. */
  readonly #skipped = new Map<string, number>()
  /** Resolves when every notice is stored. */
  #written: Promise<void> = Promise.resolve()
  /** Notices that were counted and not kept. */
  skipped = 0

  /** @param options.fail told when the store refuses a write. */
  constructor(
    store: NoticeStore,
    options: { logger: Logger; fail: (error: Error) => void; nowMs?: () => number },
  ) {
    this.#store = store
    this.#logger = options.logger
    this.#fail = options.fail
    this.#nowMs = options.nowMs ?? Date.now
  }

  /** @param share whose bounds it counts against; default: its subject. */
  note(kind: NoticeKind, subject: string, detail: string, share: string = subject): void {
    const nowMs = this.#nowMs()
    const skipped = this.#skipped.get(share) ?? 0
    if (this.#rate.take(share, nowMs) > 0) {
      this.#skipped.set(share, skipped + 1)
      this.skipped++
      return
    }
    this.#skipped.delete(share)
    const more = skipped === 0 ? '' : ` (${skipped} notices before this one were not kept)`
    const text = `${detail.slice(0, 300)}${more}`
    this.#logger[warnings.has(kind) ? 'warn' : 'info']({ kind, subject, detail: text }, 'notice')
    this.#written = this.#add({ atMs: nowMs, kind, subject: subject.slice(0, 300), detail: text }, share)
  }

  /** Newest first. */
  async list(query: NoticeQuery): Promise<NoticeRow[]> {
    await this.#written
    return await this.#store.list(query)
  }

  async close(): Promise<void> {
    await this.#written
  }

  async #add(row: Omit<NoticeRow, 'id'>, share: string): Promise<void> {
    const before = this.#written
    try {
      await this.#store.add(row, share)
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)))
    }
    await before
  }
}
