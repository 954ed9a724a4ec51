import { LogTable, openLogDatabase } from '@tributary/operations/logs'
import type Database from 'better-sqlite3'
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

/** For how long rows are kept. */
const ageMsMax = 7 * 24 * 3_600_000
const schema = `
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
  CREATE INDEX IF NOT EXISTS refusal_did ON refusal (did, id) WHERE did IS NOT NULL;`

/** The database of refusals. Each source has a share of it. */
export class RefusalRows implements RefusalStore {
  readonly #db: Database.Database
  readonly #table: LogTable<Omit<RefusalRow, 'id'>>

  constructor(path: string) {
    this.#db = openLogDatabase(path, schema)
    this.#table = new LogTable<Omit<RefusalRow, 'id'>>(this.#db, {
      table: 'refusal',
      columns: {
        atMs: 'at_ms',
        host: 'host',
        reason: 'reason',
        kind: 'kind',
        did: 'did',
        upstreamSeq: 'upstream_seq',
        detail: 'detail',
      },
      share: 'host',
      rowsPerShareMax: 5000,
      ageMsMax,
    })
  }

  add(rows: Omit<RefusalRow, 'id'>[], nowMs: number): void {
    this.#table.add(rows, nowMs)
  }

  list(query: RefusalQuery, nowMs: number): RefusalRow[] {
    return this.#table.list(query, nowMs - ageMsMax)
  }

  close(): void {
    this.#db.close()
  }
}
