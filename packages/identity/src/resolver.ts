/**
 * DID documents of `did:plc` and `did:web`, read once and kept: look-ups of one DID share a request, answers are cached
 * for as long as they are good, and how often the network can make us ask is bounded per DID, per host and in all.
 */
import { isDid, type Did } from '@tributary/protocol'
import { readDidDocument, type Identity } from './did-document.ts'
import { isAllowedPrivate, normalizeHost, type PrivateHosts } from './host.ts'
import { FetchError, safeFetch } from './safe-fetch.ts'
import { TokenBucket } from './token-bucket.ts'

export interface ResolverOptions extends PrivateHosts {
  /** The PLC directory. It is the operator's choice, so it may be on any address. */
  plcUrl: string
  /** Identities that are kept, the longest unused going first. Default 500,000. */
  cacheMax?: number
  /** Requests to the PLC directory a second. Default 500. */
  plcPerSecond?: number
  /** Bytes of a DID document. Default 1,000,000. */
  documentBytesMax?: number
  /** Milliseconds to read one. Default 5,000. */
  timeoutMs?: number
  /** Redirects that a `did:web` may make. Default 3. */
  redirectsMax?: number
  /** The time in milliseconds since 1970. */
  nowMs?: () => number
}

export interface ResolveOptions {
  /** The document must have been read after this moment, in milliseconds since 1970. */
  refreshAfter?: number
}

/** `not-found`: there is no such DID, or no longer. `invalid`: its document cannot be used. `unavailable`: nobody knows now. */
export type IdentityFault = 'not-found' | 'invalid' | 'unavailable'

/** An identity could not be had. */
export class IdentityError extends Error {
  override readonly name = 'IdentityError'
  readonly reason: IdentityFault
  /** Milliseconds after which asking again can help. */
  readonly retryAfterMs: number | undefined

  constructor(
    reason: IdentityFault,
    message: string,
    options: { retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs
  }

  /** Whether asking again can help. */
  get retryable(): boolean {
    return this.reason === 'unavailable'
  }
}

export interface IdentityResolver {
  /** Reads an identity, from the cache when that is good enough. @throws IdentityError */
  resolve(did: Did, options?: ResolveOptions): Promise<Identity>
  /** The cached identity, if it is still good. */
  peek(did: Did): Identity | undefined
  /** Forgets what is known of a DID. */
  purge(did: Did): void
}

const keepMs = { found: 86_400_000, notFound: 600_000, fault: 30_000, faultMax: 120_000 }
const forcedEveryMs = 30_000
const forcedMax = 100_000
const webPerSecond = 10
const fetchesMax = 256

type Entry =
  | { identity: Identity; untilMs: number }
  | { identity: undefined; error: IdentityError; untilMs: number; faults: number }

export function createResolver(options: ResolverOptions): IdentityResolver {
  return new Resolver(options)
}

class Resolver implements IdentityResolver {
  readonly #options: ResolverOptions
  readonly #nowMs: () => number
  readonly #cache = new Map<Did, Entry>()
  readonly #underWay = new Map<Did, { startedAt: number; identity: Promise<Identity> }>()
  readonly #forcedAt = new Map<Did, number>()
  readonly #plcBucket: TokenBucket
  readonly #webBuckets = new Map<string, TokenBucket>()
  readonly #queue: (() => void)[] = []
  #fetching = 0

  constructor(options: ResolverOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
    this.#plcBucket = new TokenBucket(options.plcPerSecond ?? 500, this.#nowMs)
  }

  peek(did: Did): Identity | undefined {
    const entry = this.#cache.get(did)
    return entry && entry.untilMs > this.#nowMs() ? entry.identity : undefined
  }

  purge(did: Did): void {
    this.#cache.delete(did)
  }

  async resolve(did: Did, { refreshAfter = 0 }: ResolveOptions = {}): Promise<Identity> {
    const now = this.#nowMs()
    const entry = this.#cache.get(did)
    if (entry && entry.untilMs > now) {
      if (!entry.identity) throw withWait(entry.error, entry.untilMs - now)
      if (entry.identity.fetchedAt >= refreshAfter) return entry.identity
      this.#checkForced(did, now)
    }
    const underWay = this.#underWay.get(did)
    if (underWay && underWay.startedAt >= refreshAfter) return await underWay.identity
    // A request that began too early cannot answer; the next one starts when it is over.
    if (underWay) {
      await underWay.identity.catch(() => undefined)
      return await this.resolve(did, { refreshAfter })
    }
    const identity = this.#read(did, now, entry && !entry.identity ? entry.faults : 0)
    this.#underWay.set(did, { startedAt: now, identity })
    try {
      return await identity
    } finally {
      this.#underWay.delete(did)
    }
  }

  /** Bounds how often somebody's claim makes us read a document again that is still good. */
  #checkForced(did: Did, now: number): void {
    if (this.#underWay.has(did)) return
    const waitMs = (this.#forcedAt.get(did) ?? -Infinity) + forcedEveryMs - now
    if (waitMs > 0)
      throw new IdentityError('unavailable', `${did} was read again a moment ago`, { retryAfterMs: waitMs })
    this.#forcedAt.delete(did)
    this.#forcedAt.set(did, now)
    if (this.#forcedAt.size > forcedMax) deleteOldest(this.#forcedAt)
  }

  async #read(did: Did, startedAt: number, faults: number): Promise<Identity> {
    try {
      const identity = readDidDocument(await this.#fetch(did), did, startedAt)
      if (!identity)
        throw new IdentityError('invalid', `what is published for ${did} is not its DID document`)
      this.#put(did, { identity, untilMs: this.#nowMs() + keepMs.found })
      return identity
    } catch (thrown) {
      const error =
        thrown instanceof IdentityError
          ? thrown
          : new IdentityError('unavailable', `the document of ${did} could not be read`, { cause: thrown })
      if (!(thrown instanceof IdentityError) && !(thrown instanceof FetchError)) throw thrown
      const keep = error.retryable ? Math.min(keepMs.fault * 2 ** faults, keepMs.faultMax) : keepMs.notFound
      this.#put(did, { identity: undefined, error, untilMs: this.#nowMs() + keep, faults: faults + 1 })
      throw withWait(error, keep)
    }
  }

  async #fetch(did: Did): Promise<unknown> {
    const { url, bucket, isOperators } = this.#locate(did)
    const waitMs = bucket.take()
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
    if (this.#fetching >= fetchesMax) await new Promise<void>((resolve) => this.#queue.push(resolve))
    this.#fetching++
    try {
      const {
        allowedPrivateHosts,
        documentBytesMax = 1_000_000,
        timeoutMs = 5000,
        redirectsMax = 3,
      } = this.#options
      const allowed = isOperators ? [...allowedPrivateHosts, new URL(url).host] : allowedPrivateHosts
      const response = await safeFetch(url, {
        allowedPrivateHosts: allowed,
        bytesMax: documentBytesMax,
        timeoutMs,
        redirectsMax,
        headers: { accept: 'application/did+ld+json,application/json' },
      })
      if (response.status === 404 || response.status === 410)
        throw new IdentityError('not-found', `there is no ${did}`)
      if (response.status !== 200) throw new FetchError(`status ${response.status} for ${did}`)
      return parseJson(response.body, did)
    } finally {
      this.#fetching--
      this.#queue.shift()?.()
    }
  }

  /** Where the document is, for the two methods that the network has. */
  #locate(did: Did): { url: string; bucket: TokenBucket; isOperators: boolean } {
    if (!isDid(did)) throw new IdentityError('invalid', 'not a DID')
    if (did.startsWith('did:plc:'))
      return { url: `${this.#options.plcUrl}/${did}`, bucket: this.#plcBucket, isOperators: true }
    const name = did.startsWith('did:web:') ? decodeURIComponent(did.slice('did:web:'.length)) : ''
    const host = normalizeHost(name, this.#options)
    if ('error' in host || name.includes('/')) throw new IdentityError('invalid', `${did} cannot be resolved`)
    let bucket = this.#webBuckets.get(host.host)
    if (!bucket) {
      bucket = new TokenBucket(webPerSecond, this.#nowMs)
      this.#webBuckets.set(host.host, bucket)
      if (this.#webBuckets.size > 10_000) deleteOldest(this.#webBuckets)
    }
    const isLocal = isAllowedPrivate(host.host, this.#options)
    return { url: `${host.url}/.well-known/did.json`, bucket, isOperators: isLocal }
  }

  #put(did: Did, entry: Entry): void {
    this.#cache.delete(did)
    this.#cache.set(did, entry)
    if (this.#cache.size > (this.#options.cacheMax ?? 500_000)) deleteOldest(this.#cache)
  }
}

function withWait(error: IdentityError, retryAfterMs: number): IdentityError {
  return new IdentityError(error.reason, error.message, { retryAfterMs, cause: error.cause })
}

function parseJson(body: Buffer, did: Did): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw new IdentityError('invalid', `the document of ${did} is not JSON`, { cause })
  }
}

function deleteOldest<K>(map: Map<K, unknown>): void {
  for (const key of map.keys()) {
    map.delete(key)
    return
  }
}
