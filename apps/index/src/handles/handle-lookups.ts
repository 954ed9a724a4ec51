/**
 * Looks up the handles that the fold asked for, in the DID documents of the accounts, outside of its transactions. The
 * queue is durable: what a stop interrupts is asked again. An account whose document cannot be read keeps the handle that
 * was known and is asked again, ever more slowly.
 */
import { IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Logger } from '@tributary/telemetry'
import { type GoneAnswers, goneAgainMs } from '../gone-answers.ts'
import { backoffMs, pause } from '../pause.ts'
import type { HandleRequest, HandleRequests } from './handle-requests.ts'

const parallelMax = 16
/** Requests read from the queue at a time. */
const pageRows = 256
const retry = { firstMs: 5_000, maxMs: 3_600_000 }
/** A wait that no request ends, in case the clock is set back. */
const idleMsMax = 60_000

/** `none`: the account has no usable handle. `later`: its document cannot be read now, or it is said to be gone. */
export type LookupResult = 'found' | 'none' | 'later'

export interface HandleLookupsOptions {
  requests: HandleRequests
  resolver: IdentityResolver
  goneAnswers: GoneAnswers
  logger: Logger
  onLookup: (result: LookupResult) => void
  nowMs?: () => number
}

export class HandleLookups {
  readonly #options: HandleLookupsOptions
  readonly #nowMs: () => number
  #woken = new AbortController()

  constructor(options: HandleLookupsOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
  }

  /** Says that there may be new requests. */
  wake(): void {
    this.#woken.abort()
  }

  /** Works until the signal aborts. Rejects with faults of the database only. */
  async run(signal: AbortSignal): Promise<void> {
    const { requests } = this.#options
    while (!signal.aborted) {
      this.#woken = new AbortController()
      const page = await requests.due(this.#now(), pageRows)
      if (page.length === 0) await pause(await this.#idleMs(), signal, this.#woken.signal)
      const queue = page.values()
      const worker = async (): Promise<void> => {
        for (const request of queue) {
          if (signal.aborted) return
          await this.#lookUp(request)
        }
      }
      await Promise.all(Array.from({ length: Math.min(parallelMax, page.length) }, worker))
    }
  }

  async #lookUp(request: HandleRequest): Promise<void> {
    const { requests, resolver, goneAnswers, logger, onLookup } = this.#options
    const { did, seq, attempts } = request
    try {
      // After an identity event a document from before it will not do.
      const { handle } = await resolver.resolve(did, seq === 0n ? {} : { refreshAfter: this.#nowMs() })
      goneAnswers.found(did)
      await requests.finish(request, handle)
      onLookup(handle === undefined ? 'none' : 'found')
    } catch (error) {
      if (!(error instanceof IdentityError)) throw error
      if (!error.retryable && goneAnswers.gone(did)) {
        await requests.finish(request, undefined)
        onLookup('none')
        return
      }
      const leastMs = error.retryable ? (error.retryAfterMs ?? 0) : goneAgainMs
      const waitMs = Math.max(leastMs, backoffMs(Number(attempts), retry))
      logger.debug({ did, waitMs, err: error }, 'a handle cannot be looked up now')
      await requests.postpone(request, this.#now() + BigInt(waitMs) * 1000n)
      onLookup('later')
    }
  }

  async #idleMs(): Promise<number> {
    const dueAt = await this.#options.requests.nextDueAt()
    if (dueAt === undefined) return idleMsMax
    return Math.min(idleMsMax, Math.max(0, Number((dueAt - this.#now()) / 1000n) + 1))
  }

  #now(): bigint {
    return BigInt(this.#nowMs()) * 1000n
  }
}
