import Database from 'better-sqlite3'
import type { OnRefused, RelayRefusal } from '../refusals.ts'

export interface RefusalRow {
  id: number
  atMs: number
  host: string
  reason: RelayRefusal
  /** `#commit` and its like, where it could be read. */
  kind: string | null
  did: string | null
  upstreamSeq: number | null
  detail: string
}

export interface RefusalQuery {
  host?: string
  reason?: string
  did?: string
  limit: number
  /** Rows older than this id. */
  before?: number
}

const flushMs = 1000
/** Rows kept of one source, and for how long. */
const rowsPerSourceMax = 5000
const ageMsMax = 7 * 24 * 3_600_000
/** Rows of one source in one flush; more are only counted, so that a flood costs nothing but its count. */
const rowsPerFlushMax = 200

/**
 * What was refused lately, for operators to read: who sent it, where, and why, never what it held.
 * Bounded per source, so that the flood of one does not push out what is known of another.
 */
export class RefusalLog {
  readonly #db: Database.Database
  readonly #insert
  readonly #trim
  readonly #forget
  readonly #timer: NodeJS.Timeout
  #pending = new Map<string, Omit<RefusalRow, 'id' | 'host'>[]>()
  readonly #rows = new Map<string, number>()
  /** Refusals that were counted and not kept. */
  skipped = 0

  constructor(path: string) {
    this.#db = new Database(path)
    this.#db.pragma('journal_mode = WAL')
    this.#db.pragma('synchronous = NORMAL')
    this.#db.exec(`
      CREATE TABLE IF NOT EXISTS refusal (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        host TEXT NOT NULL,
        reason TEXT NOT NULL,
        kind TEXT,
        did TEXT,
        upstream_seq INTEGER,
        detail TEXT NOT NULL
      );
      CREATE INDEX IF NOT EXISTS refusal_host ON refusal (host, id);
      CREATE INDEX IF NOT EXISTS refusal_did ON refusal (did, id) WHERE did IS NOT NULL;`)
    this.#insert = this.#db.prepare(
      'INSERT INTO refusal (at_ms, host, reason, kind, did, upstream_seq, detail) VALUES (?, ?, ?, ?, ?, ?, ?)',
    )
    this.#trim = this.#db.prepare(
      'DELETE FROM refusal WHERE id IN (SELECT id FROM refusal WHERE host = ? ORDER BY id LIMIT ?)',
    )
    this.#forget = this.#db.prepare<[number], { host: string }>(
      'DELETE FROM refusal WHERE id IN (SELECT id FROM refusal ORDER BY id LIMIT 100) AND at_ms < ? RETURNING host',
    )
    const counts = this.#db.prepare<[], { host: string; rows: number }>(
      'SELECT host, count(*) AS rows FROM refusal GROUP BY host',
    )
    for (const { host, rows } of counts.all()) this.#rows.set(host, rows)
    this.#timer = setInterval(() => this.flush(), flushMs).unref()
  }

  readonly note: OnRefused = (source, reason, detail, event = {}) => {
    let rows = this.#pending.get(source.host)
    if (!rows) this.#pending.set(source.host, (rows = []))
    if (rows.length >= rowsPerFlushMax) this.skipped++
    else {
      const { did = null, upstreamSeq = null, type } = event
      const kind = type === undefined ? null : type.slice(0, 32)
      rows.push({ atMs: Date.now(), reason, kind, did, upstreamSeq, detail: detail.slice(0, 256) })
    }
  }

  /** Stores what was noted. Called by itself every second. */
  flush(nowMs: number = Date.now()): void {
    const pending = this.#pending
    this.#pending = new Map()
    this.#db.transaction(() => {
      for (const { host } of this.#forget.all(nowMs - ageMsMax)) this.#count(host, -1)
      for (const [host, rows] of pending) {
        for (const { atMs, reason, kind, did, upstreamSeq, detail } of rows)
          this.#insert.run(atMs, host, reason, kind, did, upstreamSeq, detail)
        const over = this.#count(host, rows.length) - rowsPerSourceMax
        if (over > 0) this.#count(host, -this.#trim.run(host, over).changes)
      }
    })()
  }

  /** Newest first. */
  list({ host, reason, did, limit, before = Number.MAX_SAFE_INTEGER }: RefusalQuery): RefusalRow[] {
    this.flush()
    const wanted = { host, reason, did }
    const given = Object.entries(wanted).filter((entry): entry is [string, string] => entry[1] !== undefined)
    return this.#db
      .prepare<(string | number)[], RefusalRow>(
        `SELECT id, at_ms AS atMs, host, reason, kind, did, upstream_seq AS upstreamSeq, detail FROM refusal
         WHERE id < ? ${given.map(([name]) => `AND ${name} = ?`).join(' ')} ORDER BY id DESC LIMIT ?`,
      )
      .all(before, ...given.map(([, value]) => value), limit)
  }

  close(): void {
    clearInterval(this.#timer)
    this.flush()
    this.#db.close()
  }

  #count(host: string, change: number): number {
    const rows = (this.#rows.get(host) ?? 0) + change
    this.#rows.set(host, rows)
    return rows
  }
}
