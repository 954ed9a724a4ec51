import Database from 'better-sqlite3'
import type { RelayRefusal } from '../refusals.ts'

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

/** Where refusals are stored. */
export interface RefusalStore {
  add(rows: Omit<RefusalRow, 'id'>[], nowMs: number): Promise<void> | void
  /** Newest first. */
  list(query: RefusalQuery, nowMs: number): Promise<RefusalRow[]> | RefusalRow[]
}

/** Rows kept of one source, and for how long. */
const rowsPerSourceMax = 5000
const ageMsMax = 7 * 24 * 3_600_000
/** Old rows that are taken out at a time. */
const forgottenMax = 1000

/** The database of refusals. Bounded per source, so that the flood of one does not push out what is known of another. */
export class RefusalRows implements RefusalStore {
  readonly #db: Database.Database
  readonly #insert
  readonly #trim
  readonly #forget
  readonly #counts = new Map<string, number>()

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
      `DELETE FROM refusal WHERE id IN (SELECT id FROM refusal ORDER BY id LIMIT ${forgottenMax}) AND at_ms < ?
       RETURNING host`,
    )
    const counts = this.#db.prepare<[], { host: string; rows: number }>(
      'SELECT host, count(*) AS rows FROM refusal GROUP BY host',
    )
    for (const { host, rows } of counts.all()) this.#counts.set(host, rows)
  }

  add(rows: Omit<RefusalRow, 'id'>[], nowMs: number): void {
    this.#db.transaction(() => {
      for (const { host } of this.#forget.all(nowMs - ageMsMax)) this.#count(host, -1)
      for (const { atMs, host, reason, kind, did, upstreamSeq, detail } of rows) {
        this.#insert.run(atMs, host, reason, kind, did, upstreamSeq, detail)
        this.#count(host, 1)
      }
      for (const host of new Set(rows.map((row) => row.host))) {
        const over = this.#count(host, 0) - rowsPerSourceMax
        if (over > 0) this.#count(host, -this.#trim.run(host, over).changes)
      }
    })()
  }

  list(query: RefusalQuery, nowMs: number): RefusalRow[] {
    const { host, reason, did, limit, before = Number.MAX_SAFE_INTEGER } = query
    const wanted = Object.entries({ host, reason, did }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    )
    return this.#db
      .prepare<(string | number)[], RefusalRow>(
        `SELECT id, at_ms AS atMs, host, reason, kind, did, upstream_seq AS upstreamSeq, detail FROM refusal
         WHERE id < ? AND at_ms >= ? ${wanted.map(([name]) => `AND ${name} = ?`).join(' ')}
         ORDER BY id DESC LIMIT ?`,
      )
      .all(before, nowMs - ageMsMax, ...wanted.map(([, value]) => value), limit)
  }

  close(): void {
    this.#db.close()
  }

  #count(host: string, change: number): number {
    const rows = (this.#counts.get(host) ?? 0) + change
    this.#counts.set(host, rows)
    return rows
  }
}
