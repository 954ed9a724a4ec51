/**
 * Questions to the hosts of accounts: what they say of an account now, and what its current commit is. Never to a
 * private address, bounded in bytes and time, in how many are under way, and in how many a host is asked a second.
 * An answer about the commit is verified like any event; nothing here changes anything.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeFrame, type Did, type Tid } from '@tributary/protocol'
import {
  IdentityError,
  FetchError,
  RecentMap,
  safeFetch,
  TokenBucket,
  type Identity,
  type IdentityResolver,
  type SafeResponse,
} from '@tributary/identity'
import { readRepoHead } from '@tributary/repo-verify'
import { statusOf } from '../state/account.ts'

export interface HostInquiryOptions {
  resolver: IdentityResolver
  allowedPrivateHosts: readonly string[]
  userAgent: string
}

/** The commit that an account's host has for it now, as a `#sync` frame with seq 1. */
export interface CurrentCommit {
  rev: Tid
  frame: Uint8Array
}

/** The host of an account gave no answer that can be used. Asking again later can help. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}

const statusLimits = { bytesMax: 16 * 1024, timeoutMs: 5000 }
/** A proof of one record holds the commit and little else. */
const proofLimits = { bytesMax: 2_000_000, timeoutMs: 10_000 }
const repoLimits = { bytesMax: 64 * 1024 * 1024, timeoutMs: 60_000 }
/** Questions that are under way. A host that hangs must not take the places of others. */
const underWayMax = { all: 32, perHost: 8 }
const perHost = { perSecond: 5, burst: 20 }
/** How long a question may wait for its host's turn. */
const turnMsMax = 2000
const hostsMax = 10_000

const inactiveErrors: Record<string, string> = {
  RepoTakendown: 'takendown',
  RepoSuspended: 'suspended',
  RepoDeactivated: 'deactivated',
}

interface AskedHost {
  bucket: TokenBucket
  underWay: number
}

export class HostInquiry {
  readonly #options: HostInquiryOptions
  readonly #hosts = new RecentMap<string, AskedHost>(hostsMax)
  #underWay = 0

  constructor(options: HostInquiryOptions) {
    this.#options = options
  }

  /**
   * What the account's host says of it, in one word; `deleted` when the host does not know it.
   * Undefined when there is no answer now.
   */
  async status(did: Did): Promise<string | undefined> {
    try {
      const { identity, origin } = await this.#locate(did)
      const path = `/xrpc/com.atproto.sync.getRepoStatus?did=${encodeURIComponent(identity.did)}`
      return readStatus(await this.#ask(origin, path, statusLimits))
    } catch (error) {
      if (error instanceof NoAnswerError) return undefined
      throw error
    }
  }

  /**
   * The account's current commit, its signature checked.
   * @throws NoAnswerError
   */
  async currentCommit(did: Did): Promise<CurrentCommit> {
    const { identity, origin } = await this.#locate(did)
    const account = `did=${encodeURIComponent(did)}`
    // The proof that a record is there, or is not, comes with the commit: a few kB instead of everything.
    const proof = `/xrpc/com.atproto.sync.getRecord?${account}&collection=app.bsky.actor.profile&rkey=self`
    const proven = toSync(identity, await this.#ask(origin, proof, proofLimits))
    if (proven) return proven
    const repo = `/xrpc/com.atproto.sync.getRepo?${account}`
    const whole = toSync(identity, await this.#ask(origin, repo, repoLimits))
    if (whole) return whole
    throw new NoAnswerError(`the host of ${did} gave no commit that can be verified`)
  }

  async #locate(did: Did): Promise<{ identity: Identity; origin: string }> {
    try {
      const identity = await this.#options.resolver.resolve(did)
      if (identity.pdsUrl === undefined) throw new NoAnswerError(`the DID document of ${did} names no host`)
      return { identity, origin: identity.pdsUrl }
    } catch (cause) {
      if (cause instanceof IdentityError)
        throw new NoAnswerError(`the identity of ${did} could not be read`, { cause })
      throw cause
    }
  }

  async #ask(
    origin: string,
    path: string,
    limits: { bytesMax: number; timeoutMs: number },
  ): Promise<SafeResponse> {
    const host = this.#host(origin)
    const { isTaken, waitMs } = host.bucket.take(turnMsMax)
    if (!isTaken || host.underWay >= underWayMax.perHost || this.#underWay >= underWayMax.all)
      throw new NoAnswerError('too much is asked already')
    host.underWay++
    this.#underWay++
    try {
      if (waitMs > 0) await sleep(waitMs, undefined, { ref: false })
      const { allowedPrivateHosts, userAgent } = this.#options
      return await safeFetch(`${origin}${path}`, {
        ...limits,
        allowedPrivateHosts,
        headers: { 'user-agent': userAgent },
      })
    } catch (cause) {
      if (cause instanceof FetchError) throw new NoAnswerError(`${origin} did not answer`, { cause })
      throw cause
    } finally {
      host.underWay--
      this.#underWay--
    }
  }

  #host(origin: string): AskedHost {
    let host = this.#hosts.get(origin)
    if (!host) {
      host = { bucket: new TokenBucket(perHost.perSecond, perHost.burst, Date.now), underWay: 0 }
      this.#hosts.set(origin, host)
    }
    return host
  }
}

/** @throws NoAnswerError */
function readStatus({ status, body }: SafeResponse): string {
  const answer = parseObject(body)
  const { active, error } = answer
  if (status === 200 && typeof active === 'boolean') {
    return statusOf({ active, status: typeof answer['status'] === 'string' ? answer['status'] : undefined })
  }
  if (error === 'RepoNotFound') return 'deleted'
  const known = typeof error === 'string' ? inactiveErrors[error] : undefined
  if (known === undefined) throw new NoAnswerError(`status ${status} for getRepoStatus`)
  return known
}

function parseObject(body: Buffer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {} // any object
  } catch (cause) {
    throw new NoAnswerError('the answer is not JSON', { cause })
  }
}

/** A `#sync` of the commit in a CAR. Undefined when there is none that its account has signed. */
function toSync({ did, signingKey }: Identity, { status, body }: SafeResponse): CurrentCommit | undefined {
  if (status !== 200 || !signingKey) return undefined
  const head = readRepoHead(body, { did, key: signingKey, nowMs: Date.now() })
  if (!head.ok) return undefined
  const { rev, car: blocks } = head
  return { rev, frame: encodeFrame('#sync', { seq: 1, did, rev, blocks, time: new Date().toISOString() }) }
}
