import { hash } from 'node:crypto'
import { bearerToken, XrpcError } from '@tributary/xrpc'

/** The keys of the archive: those that the settings name now. Only their SHA-256 is kept. */
export class ApiKeys {
  readonly #names: ReadonlyMap<string, string>

  /** @param entries each `name:key`. */
  constructor(entries: readonly string[]) {
    this.#names = new Map(
      entries.map((entry) => {
        const colon = entry.indexOf(':')
        return [digest(entry.slice(colon + 1)), entry.slice(0, colon)]
      }),
    )
  }

  /**
   * The name of the key in an `Authorization` header.
   * @throws XrpcError 401 `AuthenticationRequired` when it is missing, malformed or unknown.
   */
  authenticate(authorization: string | undefined): string {
    const key = bearerToken(authorization)
    if (key === undefined)
      throw unauthenticated('Send an API key of this service as Authorization: Bearer <key>')
    // Looking up the digest leaks no timing that tells anything of the key itself.
    const name = this.#names.get(digest(key))
    if (name === undefined)
      throw unauthenticated('This API key is unknown or was taken back; ask the operator for one')
    return name
  }
}

function unauthenticated(message: string): XrpcError {
  return new XrpcError(401, 'AuthenticationRequired', message, { 'WWW-Authenticate': 'Bearer' })
}

function digest(text: string): string {
  return hash('sha256', text)
}
