/** What hosts answer, read strictly and within bounds: any host may send anything. */
import { encodeFrame, type Did, type Tid } from '@tributary/protocol'
import type { RepoHead } from '@tributary/repo-verify'
import { statusOf } from '../state/account.ts'

/** The commit that an account's host has for it now, as a `#sync` frame with seq 1. */
export interface CurrentCommit {
  rev: Tid
  frame: Uint8Array
}

const jsonBytesMax = 16 * 1024
const inactiveErrors = new Map([
  ['RepoTakendown', 'takendown'],
  ['RepoSuspended', 'suspended'],
  ['RepoDeactivated', 'deactivated'],
  ['RepoNotFound', 'deleted'],
])

/** The body of an answer that is JSON of at most 16 kB. */
export class JsonBody {
  readonly #pieces: Buffer[] = []
  #bytes = 0

  /** @returns whether more of the body is of use. */
  take(piece: Buffer): 'more' | 'enough' {
    this.#bytes += piece.length
    if (this.#bytes > jsonBytesMax) return 'enough'
    this.#pieces.push(piece)
    return 'more'
  }

  /** A field that is a text, a boolean or something else. Undefined when the body is no JSON object in UTF-8. */
  field(name: string): unknown {
    return this.#object()?.[name]
  }

  #object(): Record<string, unknown> | undefined {
    if (this.#bytes > jsonBytesMax) return undefined
    try {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(this.#pieces))
      const value: unknown = JSON.parse(text)
      return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined // any object
    } catch {
      return undefined
    }
  }
}

/**
 * What a host says of an account by its answer to `getRepoStatus`, in one word; `deleted` when the host does not know
 * the account. Undefined when the answer cannot be used.
 */
export function readStatus(code: number, body: JsonBody, did: Did): string | undefined {
  if (code !== 200) return inactiveErrors.get(textOf(body.field('error')) ?? '')
  const active = body.field('active')
  // An answer about another account is none.
  if (typeof active !== 'boolean' || (body.field('did') ?? did) !== did) return undefined
  return statusOf({ active, status: textOf(body.field('status')) })
}

/** Whether a host gives no repository because the account is not active there. */
export function saysInactive(code: number, body: JsonBody): boolean {
  return code >= 400 && inactiveErrors.has(textOf(body.field('error')) ?? '')
}

export function asSync({ rev, car: blocks }: RepoHead, did: Did, nowMs: number): CurrentCommit {
  const time = new Date(nowMs).toISOString()
  return { rev, frame: encodeFrame('#sync', { seq: 1, did, rev, blocks, time }) }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
