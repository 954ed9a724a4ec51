import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { isNews } from './decide.ts'

/** Events of one account that are followed by a new look at its document, in each minute. */
const hintsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }

/** Knows which events make what is known of an identity worthless. */
export class IdentityHints {
  readonly #resolver: Pick<IdentityResolver, 'peek' | 'purge'>
  readonly #hints = new KeyedRate<Did>(hintsMax)

  constructor(resolver: Pick<IdentityResolver, 'peek' | 'purge'>) {
    this.#resolver = resolver
  }

  /**
   * The cached identity. An `#identity` of a source that may speak for the account, or an `#account` with a new status,
   * first empties the cache, once, of what was read before the event came. The new look then counts for the source and not
   * for the account, whose next one may come at once.
   */
  identityFor(event: UpstreamEvent): Identity | undefined {
    const resolver = this.#resolver
    const { source, account, message, receipt, hasPurged } = event
    const { did } = message
    const identity = resolver.peek(did)
    const isChange = message.kind === 'identity' || (message.kind === 'account' && isNews(message, account))
    if (!isChange || hasPurged) return identity
    const isHint = source.policy.kind === 'relay' || identity?.pdsHost === source.host
    if (!isHint || this.#hints.take(did, receipt.receivedAtMs) > 0) return identity
    event.hasPurged = true
    resolver.purge(did, { sinceMs: receipt.receivedAtMs })
    return resolver.peek(did)
  }
}
