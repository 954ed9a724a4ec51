import { callService, fieldsOf } from '../call-service.ts'
import { readOperatorToken } from '../read-token-file.ts'

/** NSIDs of the operator's methods begin with it: of a relay, of a stream. */
export const relayPrefix = 'network.social.stream.relay.admin.'
export const streamPrefix = 'network.social.stream.admin.'

export type Json = Record<string, unknown>
export type Params = Record<string, string | number | undefined>

/** Calls the operator API of a service. */
export class OperatorClient {
  readonly #url: string
  readonly #operatorTokenFile: string
  readonly #prefix: string

  /** @param prefix of the NSIDs of all its methods, with its dot. */
  constructor(url: string, operatorTokenFile: string, prefix: string) {
    this.#url = url.replace(/\/$/, '')
    this.#operatorTokenFile = operatorTokenFile
    this.#prefix = prefix
  }

  /**
   * @param names fields that the answer has.
   * @throws as `callService` and `fieldsOf`, and TokenFileError. So do the others.
   */
  async query(method: string, params: Params = {}, ...names: readonly string[]): Promise<Json> {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(params))
      if (value !== undefined) query.set(name, String(value))
    return fieldsOf(this.#url, await this.#call(`${method}?${query.toString()}`), ...names)
  }

  async change(method: string, input: Json): Promise<Json> {
    return await this.#call(method, JSON.stringify(input))
  }

  /** Rows of a list, page by page, up to `limit`. */
  async rows(method: string, key: string, params: Params = {}, limit = Infinity): Promise<Json[]> {
    const rows: Json[] = []
    for (let cursor: string | undefined; ;) {
      const page: Json = await this.query(
        method,
        {
          ...params,
          limit: Math.min(1000, limit - rows.length),
          cursor,
        },
        key,
      )
      rows.push(...(page[key] as Json[])) // an array of objects, as every list method has it
      cursor = page['cursor'] as string | undefined // in every list method
      if (cursor === undefined || rows.length >= limit) return rows
    }
  }

  async #call(path: string, body?: string): Promise<Json> {
    const token = readOperatorToken(this.#operatorTokenFile)
    const answer = await callService(this.#url, `${this.#prefix}${path}`, {
      ...(body !== undefined && { method: 'POST', body }),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    })
    return answer as Json // XRPC answers are objects
  }
}
