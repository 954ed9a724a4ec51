import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { UpstreamEvent } from '../sources/upstream-event.ts'

/** `#identity` events of one account that are followed by a new look at its document, in each minute. */
const hintsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }

/** Knows which events make what is known of an identity worthless. */
export class IdentityHints {
  readonly #resolver: Pick<IdentityResolver, 'peek' | 'purge'>
  readonly #hints = new KeyedRate<Did>(hintsMax)

  constructor(resolver: Pick<IdentityResolver, 'peek' | 'purge'>) {
    this.#resolver = resolver
  }

  /**
   * The cached identity. An `#identity` of a source that may speak for the account first empties the cache, once, of what
   * was read before the event came.
   */
  identityFor(event: UpstreamEvent): Identity | undefined {
    const resolver = this.#resolver
    const { source, message, receipt, hasPurged } = event
    const { did } = message
    const identity = resolver.peek(did)
    if (message.kind !== 'identity' || hasPurged) return identity
    const isHint = source.policy.kind === 'relay' || identity?.pdsHost === source.host
    if (!isHint || this.#hints.take(did, receipt.receivedAtMs) > 0) return identity
    event.hasPurged = true
    resolver.purge(did, { sinceMs: receipt.receivedAtMs })
    return resolver.peek(did)
  }
}
