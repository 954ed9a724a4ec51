/**
 * Questions to the hosts of accounts: what they say of an account now, and what its current commit is. Only the host
 * that the account's document names may answer, so redirects are not followed. Never to a private address, bounded in
 * bytes and time, in how many are under way for a host and for whoever causes them, and in how many a host is asked a
 * second. An answer about the commit is verified like any event; nothing here changes anything.
 */
import {
  IdentityError,
  FetchError,
  RecentMap,
  safeFetchPieces,
  type Identity,
  type IdentityResolver,
  type SafeHead,
} from '@tributary/identity'
import { wait } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import { TokenBucket } from '@tributary/rates'
import { RepoHeadReader } from '@tributary/repo-verify'
import type { Clock } from '../clock.ts'
import { asSync, JsonBody, readStatus, saysInactive, type CurrentCommit } from './host-answers.ts'

export interface HostInquiryOptions {
  resolver: IdentityResolver
  allowedPrivateHosts: readonly string[]
  userAgent: string
  clock: Clock
  /** How a host is asked. Default: over the network. */
  fetch?: typeof safeFetchPieces
}

/** Who wants to know, and how new the DID document must be that names the host. */
export interface InquiryOptions {
  /** Host of the source whose message makes the question necessary. Default: an operator of this relay. */
  cause?: string
  /** The document is read after this moment, in milliseconds since 1970, when that is possible. Default 0. */
  readAfterMs?: number
}

/** An identity whose document names a host. */
export interface HostedIdentity extends Identity {
  pdsUrl: string
  pdsHost: string
}

/** Nobody gave an answer. Asking again later can help. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
  /** The account's host was asked, and is away or overloaded. */
  readonly isHostSilent: boolean
  /** Milliseconds after which asking again can help, where that is known. */
  readonly retryAfterMs: number | undefined

  constructor(
    message: string,
    options: { isHostSilent?: boolean; retryAfterMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.isHostSilent = options.isHostSilent ?? false
    this.retryAfterMs = options.retryAfterMs
  }
}

type Kind = 'status' | 'commit'

const statusMs = 5000
/** A proof of one record holds the commit and little else. A repository may have its commit anywhere. */
const proofLimits = { bytesMax: 2_000_000, timeoutMs: 10_000 }
const repoLimits = { bytesMax: 64 * 1024 * 1024, timeoutMs: 60_000 }
/**
 * Questions of one kind that are under way. Questions about commits have places for each cause in `AskQueue`. A relay causes
 * questions to many hosts, of which a few must not take all of its places: once half of these are taken, a host has one
 * only if it has none yet. Nor must one relay take all places of a host, or all of the turns that a question waits for.
 */
const underWayMax = { perHost: 8, statusPerCause: 32, statusPerCauseAndHost: 4 }
/** Questions of each kind, which have a rate of their own so that they do not keep the other kind waiting. */
const perHost = { perSecond: 4, burst: 20 }
/** How long a question may wait for its host's turn. */
const turnMsMax = 2000
const hostsMax = 10_000
/** The host, or the proxy in front of it, is away or wants to be left alone. */
const awayStatuses = new Set([429, 502, 503, 504])

interface Line {
  bucket: TokenBucket
  underWay: number
}

export class HostInquiry {
  readonly #options: HostInquiryOptions
  readonly #lines = new RecentMap<string, Line>(hostsMax)
  /** Questions for a status that are under way, by cause, and by cause and host. */
  readonly #statuses = new Map<string, number>()

  constructor(options: HostInquiryOptions) {
    this.#options = options
  }

  /**
   * What the account's host says of it, in one word; `deleted` when the host does not know it.
   * Undefined when there is no answer now.
   */
  async status(did: Did, options: InquiryOptions = {}): Promise<string | undefined> {
    const { cause = '' } = options
    const causeAndHost = `${cause} ${this.#options.resolver.peek(did)?.pdsHost ?? ''}`
    const { statusPerCause, statusPerCauseAndHost } = underWayMax
    const ofCause = this.#statusesOf(cause)
    const ofHostMax = ofCause < statusPerCause / 2 ? statusPerCauseAndHost : 1
    if (ofCause >= statusPerCause || this.#statusesOf(causeAndHost) >= ofHostMax) return undefined
    for (const name of [cause, causeAndHost]) this.#countStatus(name, 1)
    try {
      return await this.statusAt(await this.locate(did, options))
    } catch (error) {
      if (error instanceof NoAnswerError) return undefined
      throw error
    } finally {
      for (const name of [cause, causeAndHost]) this.#countStatus(name, -1)
    }
  }

  #statusesOf(name: string): number {
    return this.#statuses.get(name) ?? 0
  }

  #countStatus(name: string, change: number): void {
    const count = this.#statusesOf(name) + change
    if (count > 0) this.#statuses.set(name, count)
    else this.#statuses.delete(name)
  }

  /** As `status`, of a host that is known. @throws NoAnswerError when the host does not answer. */
  async statusAt({ did, pdsUrl }: HostedIdentity): Promise<string | undefined> {
    const url = `${pdsUrl}/xrpc/com.atproto.sync.getRepoStatus?did=${encodeURIComponent(did)}`
    const body = new JsonBody()
    const code = await this.#ask('status', pdsUrl, url, statusMs, (piece) => body.take(piece))
    return readStatus(code, body, did)
  }

  /**
   * The account's current commit, its signature checked. Undefined when its host gives none that can be used.
   * @throws NoAnswerError when the host does not answer.
   */
  async currentCommit(identity: HostedIdentity): Promise<CurrentCommit | undefined> {
    const account = `did=${encodeURIComponent(identity.did)}`
    // The proof that a record is there, or is not, comes with the commit: a few kB instead of everything.
    const proof = `getRecord?${account}&collection=app.bsky.actor.profile&rkey=self`
    const proven = await this.#commitOf(identity, proof, proofLimits)
    if (proven !== undefined) return proven === 'inactive' ? undefined : proven
    const whole = await this.#commitOf(identity, `getRepo?${account}`, repoLimits)
    return whole === 'inactive' ? undefined : whole
  }

  /** Reads a CAR as far as its commit, which alone is held. */
  async #commitOf(
    { did, pdsUrl, signingKey: key }: HostedIdentity,
    query: string,
    { bytesMax, timeoutMs }: { bytesMax: number; timeoutMs: number },
  ): Promise<CurrentCommit | 'inactive' | undefined> {
    if (!key) return undefined
    const nowMs = this.#options.clock.nowMs()
    const reader = new RepoHeadReader({ did, key, nowMs, bytesMax })
    const body = new JsonBody()
    const url = `${pdsUrl}/xrpc/com.atproto.sync.${query}`
    const code = await this.#ask('commit', pdsUrl, url, timeoutMs, (piece, { status }) => {
      if (status !== 200) return body.take(piece)
      return reader.push(piece) ? 'enough' : 'more'
    })
    if (code !== 200) return saysInactive(code, body) ? 'inactive' : undefined
    const head = reader.end()
    return head.ok ? asSync(head, did, nowMs) : undefined
  }

  /**
   * Reads who the account's host is. An identity from before `readAfterMs` has to do while the directory is away.
   * @throws NoAnswerError
   */
  async locate(did: Did, { cause, readAfterMs = 0 }: InquiryOptions = {}): Promise<HostedIdentity> {
    const identity = await this.#identityOf(did, { cause, readAfterMs })
    const { pdsUrl, pdsHost } = identity
    if (pdsUrl === undefined || pdsHost === undefined)
      throw new NoAnswerError(`the DID document of ${did} names no host`)
    return { ...identity, pdsUrl, pdsHost }
  }

  async #identityOf(
    did: Did,
    { cause, readAfterMs }: { cause: string | undefined; readAfterMs: number },
  ): Promise<Identity> {
    const { resolver } = this.#options
    try {
      const onBehalfOf = cause === undefined ? {} : { onBehalfOf: cause }
      return await resolver.resolve(did, { refreshAfter: readAfterMs, ...onBehalfOf })
    } catch (cause) {
      if (!(cause instanceof IdentityError)) throw cause
      const known = cause.retryable ? resolver.peek(did) : undefined
      if (known) return known
      // What the directory says of a DID that it does not know stands for long, but is read again when it has to be.
      const retryAfterMs = cause.retryable ? cause.retryAfterMs : undefined
      throw new NoAnswerError(`the identity of ${did} could not be read`, { retryAfterMs, cause })
    }
  }

  /** @param take bounds the answer. @returns the status of the answer. @throws NoAnswerError */
  async #ask(
    kind: Kind,
    origin: string,
    url: string,
    timeoutMs: number,
    take: (piece: Buffer, head: SafeHead) => 'more' | 'enough',
  ): Promise<number> {
    const line = this.#line(kind, origin)
    const { isTaken, waitMs } = line.bucket.take(turnMsMax)
    if (!isTaken || line.underWay >= underWayMax.perHost)
      throw new NoAnswerError(`${origin} is asked too much already`, { retryAfterMs: turnMsMax })
    line.underWay++
    try {
      const { allowedPrivateHosts, userAgent, clock, fetch = safeFetchPieces } = this.#options
      if (waitMs > 0) await wait(clock, waitMs)
      const bounds = { bytesMax: Infinity, timeoutMs, redirectsMax: 0, allowedPrivateHosts }
      const { status } = await fetch(url, { ...bounds, headers: { 'user-agent': userAgent } }, take)
      if (!awayStatuses.has(status)) return status
      throw new NoAnswerError(`${origin} answered with ${status}`, { isHostSilent: true })
    } catch (cause) {
      if (!(cause instanceof FetchError)) throw cause
      throw new NoAnswerError(`${origin} did not answer`, { isHostSilent: true, cause })
    } finally {
      line.underWay--
    }
  }

  #line(kind: Kind, origin: string): Line {
    const key = `${kind} ${origin}`
    let line = this.#lines.get(key)
    if (!line) {
      line = {
        bucket: new TokenBucket(perHost, () => this.#options.clock.nowMs()),
        underWay: 0,
      }
      this.#lines.set(key, line)
    }
    return line
  }
}
