import { hash } from 'node:crypto'
import { bearerToken, XrpcError } from '@tributary/xrpc'
import type { StateDatabase } from '../state-database.ts'

/** The keys of the archive. Only their SHA-256 is stored, so the file tells nobody a key. */
export class ApiKeys {
  readonly #insert
  readonly #select

  constructor(database: StateDatabase) {
    this.#insert = database.prepare(
      'INSERT OR IGNORE INTO api_keys (sha256, name, created_at_ms) VALUES (?, ?, ?)',
    )
    this.#select = database.prepare<[Buffer], { name: string }>(
      'SELECT name FROM api_keys WHERE sha256 = ? AND revoked_at_ms IS NULL',
    )
  }

  /**
   * Adds the keys of the settings, each `name:key`, that were never there. One that was revoked stays so.
   */
  seed(entries: readonly string[], nowMs: number): void {
    for (const entry of entries) {
      const colon = entry.indexOf(':')
      this.#insert.run(digest(entry.slice(colon + 1)), entry.slice(0, colon), nowMs)
    }
  }

  /**
   * The name of the key in an `Authorization` header.
   * @throws XrpcError 401 `AuthenticationRequired` when it is missing, malformed, unknown or revoked.
   */
  authenticate(authorization: string | undefined): string {
    const key = bearerToken(authorization)
    if (key === undefined)
      throw unauthenticated('Send an API key of this service as Authorization: Bearer <key>')
    // Looking up the digest leaks no timing that tells anything of the key itself.
    const row = this.#select.get(digest(key))
    if (!row) throw unauthenticated('This API key is unknown or was revoked; ask the operator for one')
    return row.name
  }
}

function unauthenticated(message: string): XrpcError {
  return new XrpcError(401, 'AuthenticationRequired', message, { 'WWW-Authenticate': 'Bearer' })
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
