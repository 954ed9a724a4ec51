/**
 * Looks up the handles that the fold asked for, in the DID documents of the accounts, outside of its transactions. The
 * queue is durable: what a stop interrupts is asked again. An account whose document cannot be had keeps the handle that
 * was known and is asked for ever, ever more slowly.
 */
import { IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Handle } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { backoffMs, pause } from '../pause.ts'
import type { HandleRequest, HandleRequests } from './handle-requests.ts'

const parallelMax = 16
/** Requests read from the queue at a time. */
const pageRows = 256
const retry = { firstMs: 5_000, maxMs: 3_600_000 }
/** A wait that no request ends, in case the clock is set back. */
const idleMsMax = 60_000

/** `none`: the account has no usable handle. `later`: its document cannot be had now. */
export type LookupResult = 'found' | 'none' | 'later'

export interface HandleLookupsOptions {
  requests: HandleRequests
  resolver: IdentityResolver
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
      const page = requests.due(this.#now(), pageRows)
      if (page.length === 0) await pause(this.#idleMs(), signal, this.#woken.signal)
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
    const { requests, resolver, logger, onLookup } = this.#options
    try {
      const handle = await this.#handleOf(request, resolver)
      await requests.finish(request, handle)
      onLookup(handle === undefined ? 'none' : 'found')
    } catch (error) {
      if (!(error instanceof IdentityError)) throw error
      const waitMs = Math.max(error.retryAfterMs ?? 0, backoffMs(Number(request.attempts), retry))
      logger.debug({ did: request.did, waitMs, err: error }, 'a handle cannot be looked up now')
      await requests.postpone(request, this.#now() + BigInt(waitMs) * 1000n)
      onLookup('later')
    }
  }

  /** Undefined when there is none: the document has no valid one, is not usable, or is no longer there. */
  async #handleOf({ did, seq }: HandleRequest, resolver: IdentityResolver): Promise<Handle | undefined> {
    try {
      // After an identity event a document from before it will not do.
      const { handle } = await resolver.resolve(did, seq === 0n ? {} : { refreshAfter: this.#nowMs() })
      return handle
    } catch (error) {
      if (error instanceof IdentityError && !error.retryable) return undefined
      throw error
    }
  }

  #idleMs(): number {
    const dueAt = this.#options.requests.nextDueAt()
    if (dueAt === undefined) return idleMsMax
    return Math.min(idleMsMax, Math.max(0, Number((dueAt - this.#now()) / 1000n) + 1))
  }

  #now(): bigint {
    return BigInt(this.#nowMs()) * 1000n
  }
}
