import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { isNews } from './decide.ts'

/** Events of one account from one source that make its document be read again, in each minute. */
const hintsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }

/** Knows which events may change an identity, so that its document is read again. */
export class IdentityHints {
  readonly #resolver: Pick<IdentityResolver, 'peek' | 'purge'>
  readonly #hints = new KeyedRate<`${Did} ${string}`>(hintsMax)

  constructor(resolver: Pick<IdentityResolver, 'peek' | 'purge'>) {
    this.#resolver = resolver
  }

  /**
   * The cached identity. An `#identity`, or an `#account` with a new status, has the document read again, once for each event:
   * - From the account's own host, or from the relay that brings the account, it purges the cache of what was read before it
   *   came. The new reading counts for the host and not for the account, so the account's next one may come at once.
   * - From another relay it waits alone for a new reading, which counts for that relay. It purges nothing, because that relay
   *   may name any account.
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
