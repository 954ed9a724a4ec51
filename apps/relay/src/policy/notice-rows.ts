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

/** Where notices are stored. */
export interface NoticeStore {
  /** @param share whose bounds the notice counts against. */
  add(row: Omit<NoticeRow, 'id'>, share: string): Promise<void> | void
  /** Newest first. */
  list(query: NoticeQuery): Promise<NoticeRow[]> | NoticeRow[]
}

const rowsPerShareMax = 500
const rowsMax = 50_000
const ageMsMax = 90 * 24 * 3_600_000

/** The database of notices. */
export class NoticeRows implements NoticeStore {
  readonly #db: Database.Database

  constructor(path: string) {
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

  /** Stores a row, and takes out what is too old or too much. Ids are in the order of time. */
  add({ atMs, kind, subject, detail }: Omit<NoticeRow, 'id'>, share: string): void {
    this.#db.transaction(() => {
      const { lastInsertRowid } = this.#db
        .prepare('INSERT INTO notice (at_ms, kind, share, subject, detail) VALUES (?, ?, ?, ?, ?)')
        .run(atMs, kind, share, subject, detail)
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
}
