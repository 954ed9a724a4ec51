import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { isNews } from './decide.ts'

/** Events of one account from one source that are followed by a new look at its document, in each minute. */
const hintsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }

/** Knows which events make what is known of an identity worthless. */
export class IdentityHints {
  readonly #resolver: Pick<IdentityResolver, 'peek' | 'purge'>
  readonly #hints = new KeyedRate<`${Did} ${string}`>(hintsMax)

  constructor(resolver: Pick<IdentityResolver, 'peek' | 'purge'>) {
    this.#resolver = resolver
  }

  /**
   * The cached identity. An `#identity` of the account's own host, or an `#account` with a new status, first empties the
   * cache, once, of what was read before the event came. The new look then counts for the host and not for the account, whose
   * next one may come at once. So does such an event of the relay that brings the account. One of another relay waits for a
   * new look that counts for that relay: it may name any account, so it takes no document away from what others send.
   */
  identityFor(event: UpstreamEvent): Identity | undefined {
    const resolver = this.#resolver
    const { source, account, message, receipt, hasAskedAnew } = event
    const { did } = message
    const identity = resolver.peek(did)
    const isChange = message.kind === 'identity' || (message.kind === 'account' && isNews(message, account))
    if (!isChange || hasAskedAnew) return identity
    const isRelay = source.policy.kind === 'relay'
    if (!isRelay && identity?.pdsHost !== source.host) return identity
    if (this.#hints.take(`${did} ${source.host}`, receipt.receivedAtMs) > 0) return identity
    event.hasAskedAnew = true
    if (isRelay && account.sourceId !== source.id) event.needsFreshKey = true
    else resolver.purge(did, { sinceMs: receipt.receivedAtMs })
    return resolver.peek(did)
  }
}
