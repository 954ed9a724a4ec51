/**
 * Repositories as their hosts have them now: fetched at a pace, and verified from the signature to the last record. Hosts
 * may answer anything, so each answer is bounded in bytes and time, and is a value.
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  FetchError,
  type Identity,
  IdentityError,
  type IdentityResolver,
  safeFetch,
  type SafeResponse,
} from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { digestToCid, readRepoCar, type VerifiedRepo } from '@tributary/repo-verify'
import { HostPace } from './host-pace.ts'

/** A repository that was found to be right. */
export interface HostRepo {
  rev: string
  /** CID of each record by its path, `COLLECTION/KEY`. */
  records: ReadonlyMap<string, string>
  /** Entries of its tree that are no records, and why. */
  leftOut: VerifiedRepo['leftOut']
}

/** What a host says of an account. */
export type HostAnswer = { host: string | undefined } & (
  | { is: 'active'; repo: HostRepo }
  /** The account is not active, or not there. */
  | { is: 'away'; why: string }
  /** Its document or its repository is not what the protocol demands. */
  | { is: 'wrong'; why: string }
  /** Nobody who is needed gave an answer. */
  | { is: 'unknown'; why: string }
)

export interface HostReposOptions {
  resolver: IdentityResolver
  /** Hosts that may be on private addresses. */
  allowedPrivateHosts: readonly string[]
  signal: AbortSignal
  /** Milliseconds between two requests to one host. Default: a second. */
  everyMs?: number
}

/** Reading a repository holds the process for up to three seconds with this much. */
const bounds = { bytesMax: 256 * 1024 * 1024, timeoutMs: 300_000, redirectsMax: 0 }
/** A host that wants to be left alone for longer is not waited for. */
const leaveAloneMsMax = 60_000
/** Requests for one repository, when the host wants to be left alone in between. */
const attemptsMax = 3
const headers = { 'user-agent': 'tributary-verify' }
/** Names of errors by which a host says that an account is not to be had. */
const awayWords = new Map([
  ['RepoTakendown', 'taken down'],
  ['RepoSuspended', 'suspended'],
  ['RepoDeactivated', 'deactivated'],
  ['RepoNotFound', 'not there'],
])

export class HostRepos {
  readonly #options: HostReposOptions
  readonly #pace: HostPace

  constructor(options: HostReposOptions) {
    this.#options = options
    this.#pace = new HostPace(options.everyMs ?? 1000)
  }

  /** Reads the repository of an account from the host that its document names. @throws what an abort throws. */
  async read(did: Did): Promise<HostAnswer> {
    const { resolver, signal } = this.#options
    let host: string | undefined
    try {
      const identity = await resolver.resolve(did)
      host = identity.pdsHost
      if (identity.pdsUrl === undefined || host === undefined)
        return { is: 'wrong', host, why: 'its DID document names no host' }
      const answer = await this.#fetch(identity.pdsUrl, host, did)
      if (answer.status === 200) return { host, ...(await this.#verify(identity, answer.body)) }
      return { host, ...refusalOf(answer) }
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof FetchError) return { is: 'unknown', host, why: error.message }
      if (!(error instanceof IdentityError)) throw error
      const is = { 'not-found': 'away', invalid: 'wrong', unavailable: 'unknown' } as const
      return { is: is[error.reason], host, why: error.message }
    }
  }

  async #fetch(origin: string, host: string, did: Did): Promise<SafeResponse> {
    const { allowedPrivateHosts, signal } = this.#options
    const url = `${origin}/xrpc/com.atproto.sync.getRepo?did=${encodeURIComponent(did)}`
    for (let attempt = 1; ; attempt++) {
      const waitMs = this.#pace.take(host)
      if (waitMs > 0) await pause(waitMs, undefined, { signal })
      const answer = await safeFetch(url, { ...bounds, allowedPrivateHosts, signal, headers })
      const aloneMs = leaveAloneMsOf(answer)
      if (aloneMs === undefined) return answer
      this.#pace.leaveAlone(host, Math.min(aloneMs, leaveAloneMsMax))
      if (aloneMs > leaveAloneMsMax || attempt === attemptsMax) return answer
    }
  }

  /** With the document read again when the key of the one that was known does not fit. */
  async #verify(
    identity: Identity,
    car: Buffer,
  ): Promise<{ is: 'active'; repo: HostRepo } | { is: 'wrong'; why: string }> {
    const { did } = identity
    const nowMs = Date.now()
    const { bytesMax } = bounds
    for (let known = identity; ;) {
      const { signingKey: key } = known
      if (!key) return { is: 'wrong', why: 'its DID document names no key' }
      const read = readRepoCar(car, { did, key, nowMs, bytesMax })
      if (read.ok) return { is: 'active', repo: repoOf(read) }
      if (read.reason !== 'bad-signature' || known.fetchedAt >= nowMs)
        return { is: 'wrong', why: `${read.reason}: ${read.detail}` }
      known = await this.#options.resolver.resolve(did, { refreshAfter: nowMs })
    }
  }
}

function repoOf({ rev, records, leftOut }: VerifiedRepo): HostRepo {
  const cids = records.map(
    ({ collection, rkey, cid }) => [`${collection}/${rkey}`, digestToCid(cid)] as const,
  )
  return { rev, records: new Map(cids), leftOut }
}

/** For how long a host wants to be left alone. Undefined when it does not say so. */
function leaveAloneMsOf({ status, headers: { 'retry-after': after } }: SafeResponse): number | undefined {
  if (status !== 429 && status !== 503) return undefined
  return /^\d{1,9}$/.test(after ?? '') ? Number(after) * 1000 : undefined
}

function refusalOf({ status, body }: SafeResponse): { is: 'away' | 'unknown'; why: string } {
  const word = awayWords.get(errorOf(body) ?? '')
  if (word !== undefined) return { is: 'away', why: `its host says that it is ${word}` }
  return { is: 'unknown', why: `its host answered getRepo with ${status}` }
}

/** The name of an XRPC error, if that is what the body holds. */
function errorOf(body: Buffer): string | undefined {
  try {
    const value: unknown = JSON.parse(body.toString())
    const error: unknown =
      typeof value === 'object' && value !== null ? Reflect.get(value, 'error') : undefined
    return typeof error === 'string' ? error : undefined
  } catch {
    return undefined
  }
}
