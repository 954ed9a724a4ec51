import { IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { systemClock, wait, type Clock } from './clock.ts'

export interface IdentityRequest {
  /** When to give up, in milliseconds since 1970. */
  untilMs: number
  /** The document must have been read after this moment. */
  refreshAfter: number
  /** The host whose event makes the reading necessary, where it is known. */
  onBehalfOf?: string
  /** Ends the waiting: the outcome is `identity-unavailable` then. */
  signal: AbortSignal
  /** Told of each reading that failed. It is tried again for as long as that can help. */
  onFault: (error: IdentityError) => void
}

/** `ready`: the resolver has it now. The others are reasons of refusal. */
export type IdentityOutcome = 'ready' | 'identity-not-found' | 'identity-unavailable'

const retryMs = { first: 1000, max: 60_000 }

/** Reads identities for events that wait for them: again and again, until each is there, known not to be, or too late. */
export class IdentityReads {
  readonly #resolver: Pick<IdentityResolver, 'resolve'>
  readonly #clock: Clock
  readonly #random: () => number

  /** @param random draws from 0 up to 1, so that those who wait do not all ask again at once. */
  constructor(
    resolver: Pick<IdentityResolver, 'resolve'>,
    clock: Clock = systemClock,
    random: () => number = Math.random,
  ) {
    this.#resolver = resolver
    this.#clock = clock
    this.#random = random
  }

  async read(did: Did, request: IdentityRequest): Promise<IdentityOutcome> {
    const { refreshAfter, signal, onFault } = request
    let [untilMs, beforeMs] = [request.untilMs, this.#clock.nowMs()]
    const cause = request.onBehalfOf === undefined ? {} : { onBehalfOf: request.onBehalfOf }
    for (let waitMs = retryMs.first; ; waitMs = Math.min(waitMs * 2, retryMs.max)) {
      try {
        await this.#resolver.resolve(did, { refreshAfter, ...cause })
        return 'ready'
      } catch (error) {
        if (!(error instanceof IdentityError)) throw error
        if (!signal.aborted) onFault(error)
        if (!error.retryable) return 'identity-not-found'
        const pauseMs = error.retryAfterMs ?? waitMs * (0.5 + this.#random() / 2)
        const nowMs = this.#clock.nowMs()
        // After the clock was set back nobody waits longer than before.
        untilMs -= Math.max(0, beforeMs - nowMs)
        beforeMs = nowMs
        const leftMs = untilMs - nowMs
        if (leftMs <= 0 || signal.aborted) return 'identity-unavailable'
        await wait(this.#clock, Math.min(pauseMs, leftMs), signal)
        if (signal.aborted) return 'identity-unavailable'
      }
    }
  }
}
