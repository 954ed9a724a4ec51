import { LogTable, openLogDatabase } from '@tributary/operations/logs'
import type Database from 'better-sqlite3'

export const noticeKinds = [
  /** Without a connection for two minutes. */
  'source-unreachable',
  'source-stuck',
  /** Not read for a minute: its rate, the disk, or a full pipeline. */
  'source-throttled',
  /** Paused or removed by an operator. */
  'source-disabled',
  'source-banned',
  /** After one of these: it is read again. */
  'source-resumed',
  /** It no longer had events that were not read yet. */
  'events-lost',
  /** It is read from another position, since it did not know ours, or an operator chose one. */
  'source-renumbered',
  /** All its slots for accounts are held, and accounts wait for one. */
  'quota-reached',
  'crawl-refused',
  /** No source is read, for want of disk. */
  'reading-paused',
  'reading-resumed',
] as const

export type NoticeKind = (typeof noticeKinds)[number]

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

const schema = `
  CREATE TABLE IF NOT EXISTS notice (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    share TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
  );
  CREATE INDEX IF NOT EXISTS notice_share ON notice (share, id);`

/** A row and whose bounds it counts against. */
type StoredNotice = Omit<NoticeRow, 'id'> & { share: string }

/** The database of notices. */
export class NoticeRows implements NoticeStore {
  readonly #db: Database.Database
  readonly #table: LogTable<StoredNotice>

  constructor(path: string) {
    this.#db = openLogDatabase(path, schema)
    this.#table = new LogTable<StoredNotice>(this.#db, {
      table: 'notice',
      columns: { atMs: 'at_ms', kind: 'kind', share: 'share', subject: 'subject', detail: 'detail' },
      share: 'share',
      rowsPerShareMax: 500,
      rowsMax: 50_000,
      ageMsMax: 90 * 24 * 3_600_000,
    })
  }

  add(row: Omit<NoticeRow, 'id'>, share: string): void {
    this.#table.add([{ ...row, share }], row.atMs)
  }

  list(query: NoticeQuery): NoticeRow[] {
    return this.#table
      .list(query)
      .map(({ id, atMs, kind, subject, detail }) => ({ id, atMs, kind, subject, detail }))
  }

  close(): void {
    this.#db.close()
  }
}
