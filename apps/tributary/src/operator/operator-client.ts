import { pagesOf, rowsOf } from '../answer-lists.ts'
import { callService, fieldsOf, type Json } from '../call-service.ts'
import { readOperatorToken } from '../read-token-file.ts'

/** NSIDs of the operator's methods begin with it: of a relay, of a stream. */
export const relayPrefix = 'network.social.stream.relay.admin.'
export const streamPrefix = 'network.social.stream.admin.'

export type { Json }
/** A list of an operator may have a million rows. */
const pagesMax = 1000

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
    let rows: Json[] = []
    const ask = (cursor: string | undefined): Promise<Json> =>
      this.query(method, { ...params, limit: Math.min(1000, limit - rows.length), cursor })
    for await (const page of pagesOf(this.#url, key, ask, { pagesMax })) {
      rows = rows.concat(page)
      if (rows.length >= limit) break
    }
    return rows
  }

  /** Rows of a list that has no pages. */
  async all(method: string, key: string, params: Params = {}): Promise<Json[]> {
    return this.rowsIn(await this.query(method, params), key)
  }

  /** Rows of a list in an answer. */
  rowsIn(answer: Json, key: string): Json[] {
    return rowsOf(this.#url, answer, key)
  }

  async #call(path: string, body?: string): Promise<Json> {
    const token = readOperatorToken(this.#operatorTokenFile)
    const answer = await callService(this.#url, `${this.#prefix}${path}`, {
      ...(body !== undefined && { method: 'POST', body }),
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    })
    return fieldsOf(this.#url, answer)
  }
}
