/** The identities that events are checked against: when the cached one will do, and how long a better one is waited for. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { IdentityError, type Identity, type IdentityResolver } from '@tributary/identity'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { RateWindow } from './rate-window.ts'

export interface IdentitiesOptions {
  resolver: IdentityResolver
  /** How long an event waits for the identity of its account. */
  waitMsMax: number
  /** Reading a DID document failed; it is tried again while the lane waits. */
  onFault: (did: Did, error: IdentityError) => void
}

const retryMs = { first: 1000, max: 60_000 }
/** `#identity` events of one account that are followed by a new look at its document, in each minute. */
const hintsMax = { count: 10, windowMs: 60_000 }

export type IdentityOutcome = 'ready' | 'identity-not-found' | 'identity-unavailable'

export class Identities {
  readonly #options: IdentitiesOptions
  readonly #hints = new RateWindow(hintsMax)
  readonly #stop = new AbortController()

  constructor(options: IdentitiesOptions) {
    this.#options = options
  }

  /**
   * The cached identity. An `#identity` of a source that may speak for the account empties the cache first, once, of what
   * was read before the event came.
   */
  of(event: UpstreamEvent, did: Did): Identity | undefined {
    const { resolver } = this.#options
    const identity = resolver.peek(did)
    if (event.message.kind !== 'identity' || event.hasPurged) return identity
    const isHint = event.source.policy.kind === 'relay' || identity?.pdsHost === event.source.host
    if (!isHint || !this.#hints.take(did, event.receivedAtMs)) return identity
    event.hasPurged = true
    resolver.purge(did, { sinceMs: event.receivedAtMs })
    return resolver.peek(did)
  }

  /** The cached identity, whoever asks. */
  peek(did: Did): Identity | undefined {
    return this.#options.resolver.peek(did)
  }

  /** Reads an identity, trying again until it is there, known not to be, or waited for too long. */
  async read(event: UpstreamEvent, did: Did, isFresh: boolean): Promise<IdentityOutcome> {
    const until = event.receivedAtMs + this.#options.waitMsMax
    for (let waitMs = retryMs.first; ; waitMs = Math.min(waitMs * 2, retryMs.max)) {
      try {
        const onBehalfOf = event.source.host
        const refreshAfter = isFresh ? event.receivedAtMs : 0
        await this.#options.resolver.resolve(did, { refreshAfter, onBehalfOf })
        return 'ready'
      } catch (error) {
        if (!(error instanceof IdentityError)) throw error
        this.#options.onFault(did, error)
        if (!error.retryable) return 'identity-not-found'
        const pauseMs = error.retryAfterMs ?? waitMs * (0.5 + Math.random() / 2)
        const leftMs = until - Date.now()
        if (leftMs <= 0 || this.#stop.signal.aborted) return 'identity-unavailable'
        const pause = sleep(Math.min(pauseMs, leftMs), undefined, { ref: false, signal: this.#stop.signal })
        await pause.catch(() => undefined)
      }
    }
  }

  close(): void {
    this.#stop.abort()
  }
}
