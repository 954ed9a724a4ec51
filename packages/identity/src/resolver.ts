/**
 * Identities, read once and kept: look-ups of one DID share a request, and answers are kept for as long as they are
 * good. Whoever needs one that was read after a certain moment gets that one or an error that says when to ask again,
 * never an older one; how often such needs lead to a request is bounded per DID and per host that causes them.
 */
import type { Did } from '@tributary/protocol'
import { readDidDocument, type Identity } from './did-document.ts'
import { DocumentSource, type DocumentSourceOptions } from './document-source.ts'
import { ForcedReadings, type LooksTaken } from './forced-readings.ts'
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
   * those that it may cause (default: for the account's PDS), and a reading of a `did:web` among those that it may have
   * under way (default: among those of all that name no host).
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

const keepMs = { found: 86_400_000, notFound: 600_000, fault: 30_000, faultMax: 120_000 }
/** Rest of its life in which an identity that is used is read again in the background. */
const refreshAheadMs = keepMs.found / 6

/** What is known of one DID. */
interface Entry extends LooksTaken {
  identity: Identity | undefined
  /** The identity was purged: only its host is still of use. */
  isStale: boolean
  /** Why the last reading failed, if it did; when that began, and until when it stands. */
  fault: IdentityError | undefined
  faults: number
  faultAtMs: number
  faultUntilMs: number
  reading: (Reading & { identity: Promise<Identity> }) | undefined
}

interface Reading {
  sinceMs: number
  /** A purge came after it had begun. */
  isStale: boolean
}

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
    const entry = this.#entries.get(did) ?? this.#restore(did)
    const now = this.#nowMs()
    const identity = entry && goodIdentity(entry, now)
    if (identity) this.#peeks.found++
    else this.#peeks.missed++
    if (identity && now > identity.fetchedAt + keepMs.found - refreshAheadMs) this.#refreshAhead(did, entry)
    return identity
  }

  purge(did: Did, { sinceMs = Infinity }: PurgeOptions = {}): void {
    const entry = this.#entries.get(did) ?? this.#restore(did)
    if (!entry) return
    const { identity, reading } = entry
    if (identity && identity.fetchedAt < sinceMs) {
      entry.isStale = true
      this.#store?.set(did, undefined)
    }
    if (entry.faultAtMs < sinceMs) entry.fault = undefined
    if (reading && reading.sinceMs < sinceMs) reading.isStale = true
  }

  async resolve(did: Did, { refreshAfter = 0, onBehalfOf }: ResolveOptions = {}): Promise<Identity> {
    const entry = this.#entry(did)
    for (;;) {
      const now = this.#nowMs()
      const identity = goodIdentity(entry, now)
      if (identity && identity.fetchedAt >= refreshAfter) return identity
      throwFault(entry, refreshAfter, now)
      const { reading } = entry
      if (!reading) {
        // Not kept as a fault, which would hold up those who have a share left.
        const refusal = this.#source.refusal(did, onBehalfOf)
        if (refusal) throw refusal
        // Without such a moment it is a purge that makes a new look necessary, whoever comes first after it.
        const forcedBy = refreshAfter > 0 ? onBehalfOf : undefined
        this.#checkForced(did, entry, forcedBy ?? entry.identity?.pdsHost)
        return await this.#begin(did, entry, onBehalfOf)
      }
      if (reading.sinceMs >= refreshAfter && !reading.isStale) return await reading.identity
      // A reading that began too early is no answer; the next one begins when it is over.
      await reading.identity.catch(() => undefined)
    }
  }

  /** Counts a look at what would have been good for longer, if it is one. */
  #checkForced(did: Did, entry: Entry, host: string | undefined): void {
    const now = this.#nowMs()
    const isKnown = entry.identity !== undefined && entry.identity.fetchedAt + keepMs.found > now
    const isAnswered = entry.fault !== undefined && entry.faultUntilMs > now
    if (!isKnown && !isAnswered) return
    const retryAfterMs = this.#forced.take(entry, { host, isPurged: isKnown && entry.isStale })
    if (retryAfterMs > 0) {
      throw new IdentityError('unavailable', `${did} was read again a moment ago`, { retryAfterMs })
    }
  }

  #refreshAhead(did: Did, entry: Entry): void {
    if (entry.reading || (entry.fault && entry.faultUntilMs > this.#nowMs())) return
    if (this.#source.refusal(did)) return
    // The entry notes how it went, and until then it is good as it is.
    this.#begin(did, entry).catch(() => undefined)
  }

  #begin(did: Did, entry: Entry, onBehalfOf?: string): Promise<Identity> {
    const reading: Reading = { sinceMs: this.#nowMs(), isStale: false }
    if (entry.firstReadMs === -Infinity && !entry.identity) entry.firstReadMs = reading.sinceMs
    const identity = this.#read(did, entry, reading, onBehalfOf).finally(() => (entry.reading = undefined))
    entry.reading = Object.assign(reading, { identity })
    return identity
  }

  async #read(did: Did, entry: Entry, reading: Reading, onBehalfOf?: string): Promise<Identity> {
    const startedMs = performance.now()
    const isRefresh = entry.identity !== undefined
    const noteRead = (outcome: IdentityRead['outcome']): void =>
      this.#onRead({ outcome, tookMs: performance.now() - startedMs, isRefresh })
    try {
      const identity = readDidDocument(await this.#source.read(did, onBehalfOf), did, reading.sinceMs)
      if (!identity)
        throw new IdentityError('invalid', `what is published for ${did} is not its DID document`)
      entry.identity = identity
      entry.isStale = reading.isStale
      entry.fault = undefined
      entry.faults = 0
      if (!entry.isStale) this.#store?.set(did, identity)
      noteRead('found')
      return identity
    } catch (error) {
      if (error instanceof IdentityError) noteRead(error.reason)
      throw error instanceof IdentityError && !reading.isStale
        ? this.#noteFault(did, entry, error, reading)
        : error
    }
  }

  /** Keeps a fault and returns it with the time for which it stands. */
  #noteFault(did: Did, entry: Entry, fault: IdentityError, { sinceMs }: Reading): IdentityError {
    const backoffMs = Math.min(keepMs.fault * 2 ** entry.faults, keepMs.faultMax)
    const standsMs = fault.retryable ? (fault.retryAfterMs ?? backoffMs) : keepMs.notFound
    if (!fault.retryable) {
      entry.identity = undefined
      this.#store?.set(did, undefined)
    }
    entry.fault = fault
    if (fault.retryAfterMs === undefined) entry.faults++
    if (fault.retryable) entry.forcedUntilMs = -Infinity
    entry.faultAtMs = sinceMs
    entry.faultUntilMs = this.#nowMs() + standsMs
    return withWait(fault, standsMs)
  }

  #entry(did: Did): Entry {
    let entry = this.#entries.get(did) ?? this.#restore(did)
    if (!entry) {
      entry = newEntry()
      this.#entries.set(did, entry)
    }
    return entry
  }

  /** What an earlier process, or this one long ago, has read. */
  #restore(did: Did): Entry | undefined {
    const identity = this.#store?.get(did)
    if (!identity || identity.fetchedAt + keepMs.found <= this.#nowMs()) return undefined
    const entry = { ...newEntry(), identity }
    this.#entries.set(did, entry)
    return entry
  }
}

function newEntry(): Entry {
  return {
    identity: undefined,
    isStale: false,
    fault: undefined,
    faults: 0,
    faultAtMs: 0,
    faultUntilMs: 0,
    firstReadMs: -Infinity,
    freeTaken: 0,
    forcedUntilMs: -Infinity,
    reading: undefined,
  }
}

function goodIdentity({ identity, isStale }: Entry, now: number): Identity | undefined {
  return identity && !isStale && identity.fetchedAt + keepMs.found > now ? identity : undefined
}

/** A fault stands for a while, but what was published does not outlive the need for a newer look. */
function throwFault({ fault, faultAtMs, faultUntilMs }: Entry, refreshAfter: number, now: number): void {
  if (!fault || faultUntilMs <= now || (!fault.retryable && faultAtMs < refreshAfter)) return
  throw withWait(fault, faultUntilMs - now)
}

function withWait(error: IdentityError, retryAfterMs: number): IdentityError {
  const { reason, message, isOwnLimit, cause } = error
  return new IdentityError(reason, message, { retryAfterMs, isOwnLimit, cause })
}
