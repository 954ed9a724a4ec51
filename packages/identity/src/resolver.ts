/**
 * Identities, read once and kept: look-ups of one DID share a request, and answers are kept for as long as they are
 * good. Whoever needs one that was read after a certain moment gets that one or an error that says when to ask again,
 * never an older one; how often such needs lead to a request is bounded per DID and per host that causes them.
 */
import type { Did } from '@tributary/protocol'
import { readDidDocument, type Identity } from './did-document.ts'
import { DocumentSource, type DocumentSourceOptions, faultOfDocument } from './document-source.ts'
import {
  type Entry,
  goodIdentity,
  isYoung,
  keepMs,
  newEntry,
  type Reading,
  standingFault,
  throwFault,
} from './entry.ts'
import { ForcedReadings } from './forced-readings.ts'
import { IdentityError, type IdentityFault } from './identity-error.ts'
import { RecentMap } from './recent-map.ts'

export interface ResolverOptions extends DocumentSourceOptions {
  /** Identities that are kept, the longest unused going first, at about 800 bytes each. Default 250,000. */
  cacheMax?: number
  /** Counted up with every call of `peek`. */
  peeks?: { found: number; missed: number }
  /** Where identities outlive the process. Default: nowhere. */
  store?: IdentityStore
  /** Told of every document that was asked for, once it is there or is not. */
  onRead?: (read: IdentityRead) => void
}

/** Keeps identities beyond the process that read them, so that a start does not have to read all of them again. */
export interface IdentityStore {
  /** What was set last, however long ago. */
  get(did: Did): Identity | undefined
  /** Keeps an identity, or forgets what was kept of its DID. A store may be late: what is lost is read again. */
  set(did: Did, identity: Identity | undefined): void
}

/** One reading of a DID document. */
export interface IdentityRead {
  outcome: 'found' | IdentityFault
  /** Milliseconds, waiting for its turn included. */
  tookMs: number
  /** An identity was known, and is read again. */
  isRefresh: boolean
}

export interface ResolveOptions {
  /** Reading the document must have begun at this moment or later, in milliseconds since 1970. */
  refreshAfter?: number
  /**
   * The host whose claims make a look at the document necessary. A new look, after a certain moment, counts for it among
   * those that it may cause (default: for the account's PDS), and a reading waits for its turn (default: for the one of
   * all that name no host).
   */
  onBehalfOf?: string
}

export interface PurgeOptions {
  /** When something became known that an older reading cannot show, in milliseconds since 1970. Default: just now. */
  sinceMs?: number
}

export interface IdentityResolver {
  /**
   * Reads an identity, from the cache when that is good enough.
   * @throws IdentityError
   */
  resolve(did: Did, options?: ResolveOptions): Promise<Identity>
  /** The cached identity, if it is still good. One that will not be for long is read again in the background. */
  peek(did: Did): Identity | undefined
  /**
   * Makes what is known of a DID, and what is being read now, no longer good. A reading that began at `sinceMs` or later
   * stays good.
   */
  purge(did: Did, options?: PurgeOptions): void
}

/** Rest of its life in which an identity that is used is read again in the background. */
const refreshAheadMs = keepMs.found / 6
/**
 * All readings ahead are one cause. Owners of accounts choose the hosts that their documents name: a cause for each host
 * would give them any number of turns before a host that has sent an event.
 */
const readAhead = 'read ahead'

/** DIDs without a document that are remembered. They have a map of their own, so that made-up DIDs push nobody out. */
const unknownMax = 50_000

export function createResolver(options: ResolverOptions): IdentityResolver {
  return new Resolver(options)
}

class Resolver implements IdentityResolver {
  readonly #nowMs: () => number
  readonly #peeks: { found: number; missed: number }
  readonly #onRead: (read: IdentityRead) => void
  readonly #source: DocumentSource
  readonly #store: IdentityStore | undefined
  readonly #entries: RecentMap<Did, Entry>
  readonly #unknown = new RecentMap<Did, Entry>(unknownMax)
  readonly #forced: ForcedReadings

  constructor(options: ResolverOptions) {
    this.#nowMs = options.nowMs ?? Date.now
    this.#peeks = options.peeks ?? { found: 0, missed: 0 }
    this.#onRead = options.onRead ?? (() => {})
    this.#source = new DocumentSource(options)
    this.#store = options.store
    this.#entries = new RecentMap(options.cacheMax ?? 250_000)
    this.#forced = new ForcedReadings(this.#nowMs)
  }

  peek(did: Did): Identity | undefined {
    const entry = this.#find(did)
    const now = this.#nowMs()
    const identity = entry && goodIdentity(entry, now)
    if (identity) this.#peeks.found++
    else this.#peeks.missed++
    if (identity && now > identity.fetchedAt + keepMs.found - refreshAheadMs) this.#refreshAhead(did, entry)
    return identity
  }

  purge(did: Did, { sinceMs = Infinity }: PurgeOptions = {}): void {
    const entry = this.#find(did)
    if (!entry) return
    const { identity, fault, reading } = entry
    if (identity && identity.fetchedAt < sinceMs) {
      entry.isStale = true
      this.#store?.set(did, undefined)
    }
    if (fault && fault.atMs < sinceMs) fault.isPurged = true
    if (reading && reading.sinceMs < sinceMs) reading.isStale = true
  }

  async resolve(did: Did, { refreshAfter = 0, onBehalfOf }: ResolveOptions = {}): Promise<Identity> {
    for (;;) {
      const entry = this.#find(did) ?? newEntry()
      const now = this.#nowMs()
      const identity = goodIdentity(entry, now)
      if (identity && identity.fetchedAt >= refreshAfter) return identity
      throwFault(entry, refreshAfter, now)
      const { reading } = entry
      if (!reading) {
        // First, because a look that cannot begin must not count.
        this.#source.check(did, onBehalfOf)
        // Without such a moment it is a purge that makes a new look necessary, whoever comes first after it.
        const ownHost = entry.identity?.pdsHost ?? onBehalfOf
        this.#checkForced(did, entry, refreshAfter > 0 ? (onBehalfOf ?? ownHost) : ownHost)
        return await this.#begin(did, entry, onBehalfOf)
      }
      this.#source.join(reading.source, onBehalfOf)
      if (reading.sinceMs >= refreshAfter && !reading.isStale) return await reading.identity
      // A reading that began too early is no answer; the next one begins when it is over.
      await reading.identity.catch(() => undefined)
    }
  }

  /** Counts a look at what would have been good for longer, if it is one. */
  #checkForced(did: Did, entry: Entry, host: string | undefined): void {
    const now = this.#nowMs()
    const isKnown = entry.identity !== undefined && isYoung(entry.identity, now)
    if (!isKnown && !standingFault(entry, now)) return
    const retryAfterMs = this.#forced.take(entry, { host, isPurged: isKnown && entry.isStale })
    if (retryAfterMs > 0) {
      throw new IdentityError('unavailable', `${did} was read again a moment ago`, { retryAfterMs })
    }
  }

  #refreshAhead(did: Did, entry: Entry): void {
    if (entry.reading || standingFault(entry, this.#nowMs())) return
    try {
      // The entry notes how it went, and until then it is good as it is.
      this.#begin(did, entry, readAhead).catch(() => undefined)
    } catch (error) {
      if (!(error instanceof IdentityError)) throw error
    }
  }

  /** @throws IdentityError at once, and notes nothing, if it may not be read now: others may be able to read it. */
  #begin(did: Did, entry: Entry, onBehalfOf?: string): Promise<Identity> {
    const source = this.#source.enter(did, onBehalfOf)
    const settled = Promise.withResolvers<Identity>()
    const reading: Reading = { source, identity: settled.promise, sinceMs: Infinity, isStale: false }
    entry.reading = reading
    if (!entry.identity) this.#unknown.set(did, entry)
    void this.#read(did, entry, reading)
      .finally(() => (entry.reading = undefined))
      .then(settled.resolve, settled.reject)
    return settled.promise
  }

  async #read(did: Did, entry: Entry, reading: Reading): Promise<Identity> {
    const startedMs = performance.now()
    const isRefresh = entry.identity !== undefined
    const noteRead = (outcome: IdentityRead['outcome']): void =>
      this.#onRead({ outcome, tookMs: performance.now() - startedMs, isRefresh })
    try {
      const document = await this.#source.read(reading.source, () => {
        reading.sinceMs = this.#nowMs()
        if (entry.firstReadMs === -Infinity && !isRefresh) entry.firstReadMs = reading.sinceMs
      })
      const identity = readDidDocument(document, did, reading.sinceMs)
      if (!identity)
        throw new IdentityError(faultOfDocument(did), `what is published for ${did} is not its DID document`)
      this.#unknown.delete(did)
      if (!entry.identity) this.#entries.set(did, entry)
      entry.identity = identity
      entry.isStale = reading.isStale
      entry.fault = undefined
      entry.faults = 0
      if (!entry.isStale) this.#store?.set(did, identity)
      noteRead('found')
      return identity
    } catch (error) {
      if (!(error instanceof IdentityError)) throw error
      // Our own limits say nothing of the DID, and nobody was asked.
      if (error.isOwnLimit) throw error
      noteRead(error.reason)
      throw reading.isStale ? error : this.#noteFault(did, entry, error, reading.sinceMs)
    }
  }

  /** Keeps a fault and returns it with the time for which it stands. */
  #noteFault(did: Did, entry: Entry, fault: IdentityError, atMs: number): IdentityError {
    const { reason, message, retryable, retryAfterMs } = fault
    const backoffMs = Math.min(keepMs.fault * 2 ** entry.faults, keepMs.faultMax)
    const standsMs = retryable ? (retryAfterMs ?? backoffMs) : keepMs.notFound
    if (!retryable) {
      entry.identity = undefined
      this.#store?.set(did, undefined)
    }
    const now = this.#nowMs()
    const fromMs = Math.max(atMs, now)
    entry.fault = { reason, message, atMs, fromMs, untilMs: now + standsMs, isPurged: false }
    if (retryAfterMs === undefined) entry.faults++
    if (retryable) entry.forcedUntilMs = undefined
    return new IdentityError(reason, message, { retryAfterMs: standsMs, cause: fault.cause })
  }

  #find(did: Did): Entry | undefined {
    return this.#entries.get(did) ?? this.#unknown.get(did) ?? this.#restore(did)
  }

  /** What an earlier process, or this one long ago, has read. */
  #restore(did: Did): Entry | undefined {
    const identity = this.#store?.get(did)
    if (!identity || !isYoung(identity, this.#nowMs())) return undefined
    const entry = { ...newEntry(), identity }
    this.#entries.set(did, entry)
    return entry
  }
}
