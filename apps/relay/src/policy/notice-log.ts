/**
 * What happened to the relay and its sources that an operator should hear of: outages, pauses, quotas, refused crawl
 * requests. Each is a line in the log and a row that can be listed. Others can cause notices at will, so they are
 * bounded per share (a source, all crawl requests, the relay itself): so many an hour, and so many rows.
 */
import { KeyedRate } from '@tributary/rates'
import type { Logger } from '@tributary/telemetry'
import Database from 'better-sqlite3'

export type NoticeKind =
  /** Without a connection for two minutes. */
  | 'source-unreachable'
  | 'source-stuck'
  /** Not read for a minute: its rate, the disk, or a full pipeline. */
  | 'source-throttled'
  /** Paused or removed by an operator. */
  | 'source-disabled'
  | 'source-banned'
  /** After one of these: it is read again. */
  | 'source-resumed'
  /** It no longer had events that were not read yet. */
  | 'events-lost'
  /** It is read from another position, since it did not know ours, or an operator chose one. */
  | 'source-renumbered'
  /** All its slots for accounts are held, and accounts wait for one. */
  | 'quota-reached'
  | 'crawl-refused'
  /** No source is read, for want of disk. */
  | 'reading-paused'
  | 'reading-resumed'

export interface NoticeRow {
  id: number
  atMs: number
  kind: NoticeKind
  /** A host, or `relay`. */
  subject: string
  detail: string
}

export interface NoticeQuery {
  kind?: string
  subject?: string
  limit: number
  /** Rows older than this id. */
  before?: number
}

const rowsPerShareMax = 500
const rowsMax = 50_000
const rowsPerHour = { max: 30, windowMs: 3_600_000, keysMax: 10_000 }
const ageMsMax = 90 * 24 * 3_600_000
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
  readonly #db: Database.Database
  readonly #logger: Logger
  readonly #nowMs: () => number
  readonly #rate = new KeyedRate<string>(rowsPerHour)
  /** Notices of each share that were left out since its last row. */
  readonly #skipped = new Map<string, number>()
  /** Notices that were counted and not kept. */
  skipped = 0

  constructor(path: string, logger: Logger, nowMs: () => number = Date.now) {
    this.#logger = logger
    this.#nowMs = nowMs
    this.#db = new Database(path)
    this.#db.pragma('journal_mode = WAL')
    this.#db.pragma('synchronous = NORMAL')
    this.#db.exec(`
      CREATE TABLE IF NOT EXISTS notice (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        kind TEXT NOT NULL,
        share TEXT NOT NULL,
        subject TEXT NOT NULL,
        detail TEXT NOT NULL
      );
      CREATE INDEX IF NOT EXISTS notice_share ON notice (share, id);`)
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
    this.#store({ atMs: nowMs, kind, subject, detail: text }, share)
  }

  /** Newest first. */
  list({ kind, subject, limit, before = Number.MAX_SAFE_INTEGER }: NoticeQuery): NoticeRow[] {
    return this.#db
      .prepare<[number, string | null, string | null, number], NoticeRow>(
        `SELECT id, at_ms AS atMs, kind, subject, detail FROM notice
         WHERE id < ? AND kind = coalesce(?, kind) AND subject = coalesce(?, subject) ORDER BY id DESC LIMIT ?`,
      )
      .all(before, kind ?? null, subject ?? null, limit)
  }

  close(): void {
    this.#db.close()
  }

  /** Stores a row, and takes out what is too old or too much. Ids are in the order of time. */
  #store({ atMs, kind, subject, detail }: Omit<NoticeRow, 'id'>, share: string): void {
    this.#db.transaction(() => {
      const { lastInsertRowid } = this.#db
        .prepare('INSERT INTO notice (at_ms, kind, share, subject, detail) VALUES (?, ?, ?, ?, ?)')
        .run(atMs, kind, share, subject.slice(0, 300), detail)
      this.#db
        .prepare(
          `DELETE FROM notice WHERE id IN (SELECT id FROM notice ORDER BY id LIMIT 100) AND (at_ms < ? OR id <= ?)`,
        )
        .run(atMs - ageMsMax, Number(lastInsertRowid) - rowsMax)
      this.#db
        .prepare(
          `DELETE FROM notice WHERE share = ? AND id <=
           (SELECT id FROM notice WHERE share = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
        )
        .run(share, share, rowsPerShareMax)
    })()
  }
}
