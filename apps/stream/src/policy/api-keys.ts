/**
 * The keys of the archive: who may download it, and how much. Operators create them, and the settings may name some; both
 * kinds are stored, listed, limited and revoked alike. Only the SHA-256 of a key is kept.
 *
 * Must hold: a key that is revoked opens nothing from that moment on, over restarts too; what a key is allowed is stored.
 * What it has used is counted in memory, so a restart begins with nothing used.
 */
import { hash, randomBytes } from 'node:crypto'
import { SlidingWindow } from '@tributary/rates'
import { bearerToken, XrpcError } from '@tributary/xrpc'
import type { StateDatabase } from '../state-database.ts'

/** What a key is allowed. 0: any number. */
export interface KeyQuota {
  requestsPerHour: number
  megabytesPerDay: number
}

export interface ApiKey extends KeyQuota {
  id: number
  /** Whom it was given to. */
  owner: string
  /** Who created it; `settings` for one that the settings name. */
  actor: string
  createdAtMs: number
  /** From when on it opens nothing; 0 for a key that is good. */
  revokedAtMs: number
}

/** A key with what it has used since the start. */
export interface KeyUse extends ApiKey {
  requestsLastHour: number
  bytesLastDay: number
  /** 0: not since the start. */
  usedAtMs: number
}

interface KnownKey {
  key: ApiKey
  requests: SlidingWindow
  bytes: SlidingWindow
  /** Answers that are under way. */
  answers: number
  usedAtMs: number
  /** It was revoked, and stays so when the clock is set back. Stored. */
  isOver: boolean
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const megabyte = 1_000_000
const keyBytes = 32
/**
 * Plans, segments and blocks that are under way for one key. Each holds memory or a file, and a connection, for as long as
 * its reader likes.
 */
export const answersMax = 32
/** Keys that are kept, with those that were revoked. */
const keysMax = 10_000
/** What a key is allowed unless the operator says otherwise: many times what a reader of everything needs. */
export const defaultQuota: KeyQuota = { requestsPerHour: 100_000, megabytesPerDay: 1_000_000 }
/** Who created the keys that the settings name. */
const settingsActor = 'settings'
const columns = `id, owner, actor, created_at_ms AS createdAtMs, revoked_at_ms AS revokedAtMs,
  requests_per_hour AS requestsPerHour, megabytes_per_day AS megabytesPerDay`

export class ApiKeys {
  readonly #database: StateDatabase
  readonly #elapsedMs: () => number
  readonly #known = new Map<number, KnownKey>()
  #byDigest = new Map<string, KnownKey>()

  /**
   * @param settings the keys that the settings name, each `owner:key`. Those that they no longer name are revoked.
   * @param elapsedMs goes on whatever the clock is set to, so that what was used is forgotten in time.
   */
  constructor(
    database: StateDatabase,
    settings: readonly string[],
    elapsedMs: () => number = () => performance.now(),
  ) {
    this.#database = database
    this.#elapsedMs = elapsedMs
    database.transaction(() => this.#follow(settings, Date.now()))()
    this.reload()
  }

  /**
   * The key in an `Authorization` header.
   * @throws XrpcError 401 `AuthenticationRequired` when it is missing, malformed, unknown or revoked.
   */
  authenticate(authorization: string | undefined): ApiKey {
    const text = bearerToken(authorization)
    if (text === undefined)
      throw unauthenticated('Send an API key of this service as Authorization: Bearer <key>')
    // Looking up the digest leaks no timing that tells anything of the key itself.
    const known = this.#byDigest.get(digest(text))
    if (!known || this.#isOver(known)) throw unknownKey()
    return known.key
  }

  /** Counts a request of a key. @throws XrpcError 429 `RateLimitExceeded` with `Retry-After`. */
  takeRequest({ id, requestsPerHour, megabytesPerDay }: ApiKey): void {
    const known = this.#known.get(id)
    if (!known) return
    const { requests, bytes } = known
    if (bytes.available < 1)
      throw overQuota(`This key may download ${megabytesPerDay} MB a day`, bytes.waitMsFor(1))
    if (requests.available < 1)
      throw overQuota(`This key may send ${requestsPerHour} requests an hour`, requests.waitMsFor(1))
    requests.spend(1)
    known.usedAtMs = Date.now()
  }

  /**
   * Counts an answer that begins.
   * @returns what is to be called, once, when it is over.
   * @throws XrpcError 429 `RateLimitExceeded` with `Retry-After` when as many of the key are under way as may be.
   */
  beginAnswer({ id }: ApiKey): () => void {
    const known = this.#known.get(id)
    if (!known) return () => {}
    if (known.answers >= answersMax)
      throw overQuota(`This key has ${answersMax} plans and downloads under way`, 1000)
    known.answers++
    return () => void known.answers--
  }

  /**
   * Counts what is about to be sent for a key. The last answer of a day may go beyond what is allowed.
   * @throws XrpcError 401 `AuthenticationRequired` when the key was taken back meanwhile.
   */
  countBytes({ id }: ApiKey, count: number): void {
    const known = this.#known.get(id)
    if (!known || this.#isOver(known)) throw unknownKey()
    known.bytes.spend(count)
  }

  /** All keys, by id; those that were revoked too. */
  list(): KeyUse[] {
    return Array.from(this.#known.values(), ({ key, requests, bytes, usedAtMs }) => ({
      ...key,
      requestsLastHour: requests.used,
      bytesLastDay: bytes.used,
      usedAtMs,
    }))
  }

  /** @throws XrpcError 400 `KeyNotFound` */
  known(id: number): ApiKey {
    const known = this.#known.get(id)
    if (!known)
      throw new XrpcError(400, 'KeyNotFound', `there is no key ${id}: the list of keys has them all`)
    return known.key
  }

  /**
   * Stores a new key, within the transaction of the caller. `reload` makes it count.
   * @returns the key itself, which nobody is told again.
   */
  create(owner: string, actor: string, quota: KeyQuota, nowMs: number): { id: number; key: string } {
    if (this.#known.size >= keysMax) {
      const message = `${keysMax} keys are kept, with those that were revoked, which is the most`
      throw new XrpcError(400, 'InvalidRequest', message)
    }
    const key = `tributary_${randomBytes(keyBytes).toString('base64url')}`
    return { id: this.#insert(digest(key), owner, actor, quota, nowMs), key }
  }

  /** Stores from when on a key opens nothing, as `create` does. An earlier time stays. */
  revoke(id: number, atMs: number): void {
    this.#database
      .prepare(
        'UPDATE api_keys SET revoked_at_ms = ? WHERE id = ? AND (revoked_at_ms = 0 OR revoked_at_ms > ?)',
      )
      .run(atMs, id, atMs)
  }

  /** Stores what a key is allowed, as `create` does. */
  setQuota(id: number, { requestsPerHour, megabytesPerDay }: KeyQuota): void {
    this.#database
      .prepare('UPDATE api_keys SET requests_per_hour = ?, megabytes_per_day = ? WHERE id = ?')
      .run(requestsPerHour, megabytesPerDay, id)
  }

  /** Takes what is stored for what holds. What was used is kept. */
  reload(): void {
    const rows = this.#database
      .prepare<[], ApiKey & { sha256: string; isOver: number }>(
        `SELECT sha256, is_over AS isOver, ${columns} FROM api_keys ORDER BY id`,
      )
      .all()
    this.#byDigest = new Map()
    for (const { sha256, isOver, ...key } of rows) {
      let known = this.#known.get(key.id)
      if (!known) {
        const [requests, bytes] = [hourMs, dayMs].map(
          (ms) => new SlidingWindow(ms, Infinity, this.#elapsedMs),
        )
        if (!requests || !bytes) throw new Error('two windows were made')
        this.#known.set(key.id, (known = { key, requests, bytes, answers: 0, usedAtMs: 0, isOver: false }))
      }
      known.key = key
      known.isOver ||= isOver === 1
      // Noted at once, and not when it is shown next: the clock may be set back before that.
      this.#isOver(known)
      known.requests.max = key.requestsPerHour || Infinity
      known.bytes.max = key.megabytesPerDay * megabyte || Infinity
      this.#byDigest.set(sha256, known)
    }
  }

  /** Whether a key opens nothing any more. That is stored, because a clock that is set back would open it again. */
  #isOver(known: KnownKey): boolean {
    if (!known.isOver && isRevoked(known.key)) {
      known.isOver = true
      this.#database.prepare('UPDATE api_keys SET is_over = 1 WHERE id = ?').run(known.key.id)
    }
    return known.isOver
  }

  /** Brings the stored keys of the settings to what the settings name now. One that was revoked stays so. */
  #follow(settings: readonly string[], nowMs: number): void {
    const named = new Map(
      settings.map((entry) => {
        const colon = entry.indexOf(':')
        return [digest(entry.slice(colon + 1)), entry.slice(0, colon)]
      }),
    )
    const stored = this.#database
      .prepare<[string], { id: number; sha256: string }>('SELECT id, sha256 FROM api_keys WHERE actor = ?')
      .all(settingsActor)
    // A key that an operator revoked stays, so that it is not good again when the settings name it again.
    const remove = this.#database.prepare('DELETE FROM api_keys WHERE id = ? AND revoked_at_ms = 0')
    for (const { id, sha256 } of stored) {
      if (named.has(sha256)) continue
      remove.run(id)
      this.revoke(id, nowMs)
    }
    const isStored = this.#database.prepare<[string], 1>('SELECT 1 FROM api_keys WHERE sha256 = ?').pluck()
    for (const [sha256, owner] of named)
      if (isStored.get(sha256) === undefined) this.#insert(sha256, owner, settingsActor, defaultQuota, nowMs)
  }

  #insert(sha256: string, owner: string, actor: string, quota: KeyQuota, nowMs: number): number {
    const { lastInsertRowid } = this.#database
      .prepare(
        `INSERT INTO api_keys (sha256, owner, actor, created_at_ms, revoked_at_ms, requests_per_hour, megabytes_per_day)
         VALUES (?, ?, ?, ?, 0, ?, ?)`,
      )
      .run(sha256, owner, actor, nowMs, quota.requestsPerHour, quota.megabytesPerDay)
    return Number(lastInsertRowid)
  }
}

export function isRevoked({ revokedAtMs }: ApiKey, nowMs: number = Date.now()): boolean {
  return revokedAtMs > 0 && nowMs >= revokedAtMs
}

function unauthenticated(message: string): XrpcError {
  return new XrpcError(401, 'AuthenticationRequired', message, { 'WWW-Authenticate': 'Bearer' })
}

function unknownKey(): XrpcError {
  return unauthenticated('This API key is unknown or was taken back; ask the operator for one')
}

function overQuota(message: string, waitMs: number): XrpcError {
  const retryAfter = String(Math.max(1, Math.ceil(waitMs / 1000)))
  return new XrpcError(429, 'RateLimitExceeded', `${message}; ask the operator for more`, {
    'Retry-After': retryAfter,
  })
}

function digest(text: string): string {
  return hash('sha256', text)
}
