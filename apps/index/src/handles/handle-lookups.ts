/**
 * Looks up the handles that the fold asked for, outside of its transactions: the DID document of the account declares one,
 * and it counts only if the name points back to the account. The queue is durable: what a stop interrupts is asked again.
 * An account keeps the handle that was known while its document or the name cannot be read, unless the document declares
 * another one, and is asked about ever more slowly. A document of `did:web` can be read only if its owner lets us, so
 * without it the name alone is asked whether it still points back. Accounts of one host hold up no others, however long their
 * names take: of the places the host has its share.
 */
import {
  FetchError,
  type HandleResolver,
  IdentityError,
  type IdentityResolver,
  RecentMap,
} from '@tributary/identity'
import type { Did, Handle } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { type GoneAnswers, goneAgainMs } from '../gone-answers.ts'
import { HostPlaces, NoPlaceError } from '../host-places.ts'
import { backoffMs, pause } from '../pause.ts'
import { WorkPool } from '../work-pool.ts'
import type { HandleRequest, HandleRequests } from './handle-requests.ts'

/** Look-ups at a time. The names of each host, and the documents of `did:web`, have a share of them. */
const placesMax = 64
/** Accounts at a time. Documents of the directory are read without a place. */
const accountsMax = 2 * placesMax
/** Look-ups that find no place come back at this pace: that at which a host whose names answer is done. */
const apartMs = 10
/** Requests read from the queue at a time. */
const pageRows = 256
const retry = { firstMs: 5_000, maxMs: 3_600_000 }
/** Anybody can declare names whose servers never answer, so these are asked more and more seldom. */
const nameRetry = { firstMs: 5_000, maxMs: 86_400_000 }
/** Accounts of which it is remembered when their name was asked alone. Another one is asked more often than necessary. */
const askedAloneMax = 10_000
/** A wait that no request ends, in case the clock is set back. */
const idleMsMax = 60_000
/** The same while look-ups are under way, whose requests are due. */
const idleMsBusy = 1000

/**
 * `none`: the account has no usable handle. `unproven`: the name does not point back. `later`: that cannot be known now, or
 * something is said to be gone.
 */
export type LookupResult = 'found' | 'none' | 'unproven' | 'later'

export interface HandleLookupsOptions {
  requests: HandleRequests
  resolver: IdentityResolver
  resolveHandle: HandleResolver
  /** About accounts that are gone. */
  goneAnswers: GoneAnswers
  /** About names that do not point back any more. */
  lostNames: GoneAnswers
  logger: Logger
  onLookup: (result: LookupResult) => void
  nowMs?: () => number
}

export class HandleLookups {
  readonly #options: HandleLookupsOptions
  readonly #nowMs: () => number
  readonly #places: HostPlaces
  readonly #pool = new WorkPool<Did>(accountsMax)
  /** When names were asked without a document. Identity events come as often as an account likes. */
  readonly #askedAloneMs = new RecentMap<Did, number>(askedAloneMax)
  #woken = new AbortController()

  constructor(options: HandleLookupsOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
    this.#places = new HostPlaces({ placesMax, apartMs, nowMs: this.#nowMs })
  }

  /** Says that there may be new requests. */
  wake(): void {
    this.#woken.abort()
  }

  /** Works until the signal aborts. Rejects with faults of the database only. */
  run(signal: AbortSignal): Promise<void> {
    return this.#pool.run(async () => {
      while (!signal.aborted) {
        this.#woken = new AbortController()
        const due = await this.#options.requests.due(this.#now(), pageRows + this.#pool.size)
        const waiting = due.filter(({ did }) => !this.#pool.has(did))
        if (waiting.length === 0) await pause(await this.#idleMs(), signal, this.#woken.signal)
        for (const request of waiting) {
          if (signal.aborted) return
          await this.#pool.start(request.did, () => this.#lookUp(request, signal))
        }
      }
    })
  }

  async #lookUp(request: HandleRequest, signal: AbortSignal): Promise<void> {
    const { requests, resolver, goneAnswers, onLookup } = this.#options
    const { did, seq } = request
    try {
      const askedMs = this.#nowMs()
      // After an identity event a document from before it will not do.
      const how = seq === 0n ? {} : { refreshAfter: this.#nowMs() }
      const identity = await this.#places.readDocument(did, () => resolver.resolve(did, how))
      const { handle, pdsHost = '', fetchedAt } = identity
      // A document that was read earlier says nothing of the directory as it is now.
      if (fetchedAt >= askedMs) goneAnswers.found(did)
      if (handle !== undefined) {
        try {
          await this.#places.within(pdsHost, did, () => this.#prove(request, handle, signal))
        } catch (error) {
          // An account could else keep a handle that is another's by now: with a name for which nobody answers.
          if (!signal.aborted) await requests.keepOnly(did, handle)
          throw error
        }
        return
      }
      await requests.finish(request, undefined)
      onLookup('none')
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof NoPlaceError) {
        await requests.postpone(request, this.#after(error.waitMs), request.attempts)
        return
      }
      if (error instanceof FetchError) return this.#postpone(request, error, nameRetry, 0)
      if (!(error instanceof IdentityError)) throw error
      if (!error.retryable && goneAnswers.gone(did)) {
        await requests.finish(request, undefined)
        onLookup('none')
        return
      }
      if (did.startsWith('did:web:') && (await this.#isLost(did, signal))) {
        await requests.finish(request, undefined)
        onLookup('unproven')
        return
      }
      const leastMs = error.retryable ? (error.retryAfterMs ?? 0) : goneAgainMs
      await this.#postpone(request, error, retry, leastMs)
    }
  }

  /** Stores a handle that points back. One that did is taken away only when it is said twice that it does not. */
  async #prove(request: HandleRequest, handle: Handle, signal: AbortSignal): Promise<void> {
    const { requests, resolveHandle, lostNames, onLookup } = this.#options
    const { did } = request
    const pointsTo: Did | undefined = await resolveHandle(handle, signal)
    if (pointsTo === did) {
      lostNames.found(did)
      await requests.finish(request, handle)
      onLookup('found')
      return
    }
    if ((await requests.handleOf(did)) === handle && !lostNames.gone(did)) {
      await this.#postpone(request, `${handle} does not point back`, retry, goneAgainMs)
      return
    }
    await requests.finish(request, undefined)
    onLookup('unproven')
  }

  /**
   * Whether the name of the handle that is shown says for the second time that it does not point back. It is asked without
   * the document of the account, so it counts for the places of such documents.
   */
  async #isLost(did: Did, signal: AbortSignal): Promise<boolean> {
    const { requests, resolveHandle, lostNames } = this.#options
    const shown = await requests.handleOf(did)
    const nowMs = this.#nowMs()
    const sinceMs = nowMs - (this.#askedAloneMs.get(did) ?? -Infinity)
    // A time to come is one of a clock that was ahead.
    if (shown === undefined || (sinceMs >= 0 && sinceMs < goneAgainMs)) return false
    try {
      const pointsTo = await this.#places.readDocument(did, () => {
        this.#askedAloneMs.set(did, nowMs)
        return resolveHandle(shown, signal)
      })
      if (pointsTo !== did) return lostNames.gone(did)
      lostNames.found(did)
    } catch (error) {
      // That the name does not answer says nothing.
      if (!(signal.aborted || error instanceof FetchError || error instanceof NoPlaceError)) throw error
    }
    return false
  }

  async #postpone(
    request: HandleRequest,
    reason: unknown,
    waits: typeof retry,
    leastMs: number,
  ): Promise<void> {
    const { requests, logger, onLookup } = this.#options
    const waitMs = Math.max(leastMs, backoffMs(Number(request.attempts), waits))
    logger.debug({ did: request.did, waitMs, err: reason }, 'a handle cannot be looked up now')
    await requests.postpone(request, this.#after(waitMs), request.attempts + 1n)
    onLookup('later')
  }

  async #idleMs(): Promise<number> {
    if (this.#pool.size > 0) return idleMsBusy
    const dueAt = await this.#options.requests.nextDueAt()
    if (dueAt === undefined) return idleMsMax
    return Math.min(idleMsMax, Math.max(0, Number((dueAt - this.#now()) / 1000n) + 1))
  }

  /** The moment after a wait, which is bounded: a later moment would be taken for one of a clock that was ahead. */
  #after(waitMs: number): bigint {
    return this.#now() + BigInt(Math.ceil(Math.min(waitMs, nameRetry.maxMs))) * 1000n
  }

  #now(): bigint {
    return BigInt(this.#nowMs()) * 1000n
  }
}
