import { hash } from 'node:crypto'
import type Database from 'better-sqlite3'
import { XrpcError } from '@tributary/xrpc'

/** Who asked for what. */
export interface OperationRequest {
  operation: string
  actor: string
  idempotencyKey: string | undefined
  input: unknown
}

/** What an operation did, for the audit and for whoever asked. */
export interface Change<T> {
  /** What was changed: a host, a domain, a DID, a collection, or the service itself. */
  subject: string
  before?: unknown
  after?: unknown
  output: T
  /** False when all was so already: then nothing is audited. Default: true. */
  isChanged?: boolean
  /** What follows once the change is stored. It is not done again when the same request is repeated. */
  effect?: () => Promise<void> | void
}

export interface AuditRow {
  id: number
  atMs: number
  actor: string
  operation: string
  subject: string
  before: unknown
  after: unknown
}

/** The tables that it needs, for the migrations of a database. */
export const operationsSchema = `CREATE TABLE audit (
     id INTEGER PRIMARY KEY AUTOINCREMENT,
     at_ms INTEGER NOT NULL,
     actor TEXT NOT NULL,
     operation TEXT NOT NULL,
     subject TEXT NOT NULL,
     before TEXT,
     after TEXT
   );
   CREATE TABLE idempotency (
     key TEXT PRIMARY KEY,
     request_digest TEXT NOT NULL,
     output TEXT NOT NULL,
     at_ms INTEGER NOT NULL
   ) WITHOUT ROWID;
   CREATE INDEX idempotency_age ON idempotency (at_ms);`

/** How long a request that is repeated is known again. */
const keyMsMax = 7 * 24 * 3_600_000

/**
 * Runs what operators ask for: every change is stored in one transaction with its audit row, and a request that is
 * repeated with its idempotency key is answered as it was the first time, without doing it again.
 */
export class Operations {
  readonly #db: Database.Database
  /** Requests that are being run, so that a repeat waits for the same outcome. */
  readonly #running = new Map<string, { digest: string; outcome: Promise<unknown> }>()

  constructor(db: Database.Database) {
    this.#db = db
  }

  /**
   * @param prepare looks at what is there, also outside of the process, and returns what makes the change, which is
   *   called within the transaction.
   * @throws XrpcError 409 `IdempotencyKeyReused` when the key came with another request before; 503 `DiskFull`.
   */
  async run<T>(
    request: OperationRequest,
    prepare: () => (() => Change<T>) | Promise<() => Change<T>>,
  ): Promise<T> {
    const { idempotencyKey: key, operation, input } = request
    if (key === undefined) return await this.#apply(request, prepare)
    const digest = hash('sha256', JSON.stringify([operation, input]))
    const running = this.#running.get(key)
    const before = running ? undefined : this.#find(key)
    if ((running ?? before) && (running ?? before)?.digest !== digest) {
      throw new XrpcError(409, 'IdempotencyKeyReused', 'this idempotencyKey came with another request before')
    }
    if (before) return JSON.parse(before.output) as T // what the same operation returned
    if (running) return (await running.outcome) as T // the same operation, by the digest
    const outcome = this.#apply(request, prepare, digest)
    this.#running.set(key, { digest, outcome })
    try {
      return await outcome
    } finally {
      this.#running.delete(key)
    }
  }

  /** Newest first. @param before the id of the last row seen. */
  audit(limit: number, before: number = Number.MAX_SAFE_INTEGER): AuditRow[] {
    return this.#db
      .prepare<[number, number], Omit<AuditRow, 'before' | 'after'> & { before: string; after: string }>(
        `SELECT id, at_ms AS atMs, actor, operation, subject, before, after FROM audit
         WHERE id < ? ORDER BY id DESC LIMIT ?`,
      )
      .all(before, limit)
      .map((row) => ({ ...row, before: JSON.parse(row.before), after: JSON.parse(row.after) }))
  }

  #find(key: string): { digest: string; output: string } | undefined {
    return this.#db
      .prepare<[string, number], { digest: string; output: string }>(
        'SELECT request_digest AS digest, output FROM idempotency WHERE key = ? AND at_ms > ?',
      )
      .get(key, Date.now() - keyMsMax)
  }

  async #apply<T>(
    { actor, operation, idempotencyKey }: OperationRequest,
    prepare: () => (() => Change<T>) | Promise<() => Change<T>>,
    digest?: string,
  ): Promise<T> {
    const make = await prepare()
    const { output, effect } = this.#stored(() => {
      const change = make()
      const { subject, before = null, after = null, isChanged = true } = change
      const nowMs = Date.now()
      if (isChanged)
        this.#db
          .prepare(
            'INSERT INTO audit (at_ms, actor, operation, subject, before, after) VALUES (?, ?, ?, ?, ?, ?)',
          )
          .run(nowMs, actor, operation, subject, JSON.stringify(before), JSON.stringify(after))
      if (idempotencyKey !== undefined && digest !== undefined) {
        this.#db.prepare('DELETE FROM idempotency WHERE at_ms < ?').run(nowMs - keyMsMax)
        this.#db
          .prepare('INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?)')
          .run(idempotencyKey, digest, JSON.stringify(change.output), nowMs)
      }
      return change
    })
    try {
      await effect?.()
    } catch (error) {
      // What was stored stays, but a repeat has to try the rest again.
      if (idempotencyKey !== undefined)
        this.#db.prepare('DELETE FROM idempotency WHERE key = ?').run(idempotencyKey)
      throw error
    }
    return output
  }

  /** Runs a transaction. @throws XrpcError 503 `DiskFull` */
  #stored<T>(run: () => T): T {
    try {
      return this.#db.transaction(run).immediate()
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'SQLITE_FULL')
        throw new XrpcError(503, 'DiskFull', 'nothing was changed, because the disk of the service is full')
      throw error
    }
  }
}
