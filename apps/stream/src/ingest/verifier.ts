import { setTimeout as delay } from 'node:timers/promises'
import { type Identity, IdentityError, type IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import {
  type AccountBound,
  type AccountMessage,
  type IdentityMessage,
  isSigned,
  type Refusal,
  type SignedMessage,
  trustMessage,
  type VerifiedCommit,
  type VerifiedSync,
  verifyMessage,
} from '@tributary/repo-verify'

/** One message of the relay that names an account. */
export interface UpstreamItem {
  readonly message: AccountBound
  readonly receivedMs: number
}

/** The account's document could not be had in time, so nothing is known of the event. */
export interface Unresolved {
  ok: false
  reason: 'identity-unavailable'
  detail: string
}

export type Verdict = VerifiedCommit | VerifiedSync | IdentityMessage | AccountMessage | Refusal | Unresolved

/** How long an event waits for the document of its account. */
const waitMsMax = 600_000
const retryMs = { first: 1000, max: 30_000 }

export interface VerifierOptions {
  /** Without a resolver the relay is trusted: the form of events is checked, but no signature and no tree. */
  resolver: IdentityResolver | undefined
  /** Ends all waiting. */
  signal: AbortSignal
  /** Told of every attempt to resolve an account that failed. */
  onUnresolved: (did: Did, error: IdentityError) => void
}

/** Checks events, with the key that the DID document of their account names. */
export class Verifier {
  readonly #options: VerifierOptions

  constructor(options: VerifierOptions) {
    this.#options = options
  }

  /** Whether signatures and trees are checked. */
  get isStrict(): boolean {
    return this.#options.resolver !== undefined
  }

  /**
   * Checks one event: at once if the account's key is at hand, else when it is. Events of one account are checked one
   * after the other. A promise given here resolves to undefined when the signal was aborted while it waited.
   */
  check(item: UpstreamItem): Verdict | Promise<Verdict | undefined> {
    const { resolver } = this.#options
    const { message } = item
    if (!isSigned(message)) {
      // The next signature of this account is checked against what its document says after this event came.
      resolver?.purge(message.did, { sinceMs: item.receivedMs })
      return message
    }
    if (!resolver) return trustMessage(message)
    const identity = resolver.peek(message.did)
    const verdict = identity && verify(message, identity)
    if (verdict && !mayBeOldKey(verdict, item, identity)) return verdict
    // What waits must not keep the socket's whole buffer alive.
    message.bytes = Buffer.from(message.bytes)
    return this.#checkLater(resolver, item, message, identity ? item.receivedMs : undefined)
  }

  async #checkLater(
    resolver: IdentityResolver,
    item: UpstreamItem,
    message: SignedMessage,
    refreshAfter: number | undefined,
  ): Promise<Verdict | undefined> {
    const identity = await this.#resolve(resolver, item, refreshAfter)
    if (this.#options.signal.aborted) return undefined
    if (!identity) {
      return { ok: false, reason: 'identity-unavailable', detail: 'the account could not be resolved' }
    }
    const verdict = verify(message, identity)
    if (!mayBeOldKey(verdict, item, identity)) return verdict
    return this.#checkLater(resolver, item, message, item.receivedMs)
  }

  /** The account's document, tried for as long as that can help and there is time. */
  async #resolve(
    resolver: IdentityResolver,
    { message: { did }, receivedMs }: UpstreamItem,
    refreshAfter: number | undefined,
  ): Promise<Identity | undefined> {
    const { signal, onUnresolved } = this.#options
    for (let waitMs = retryMs.first; !signal.aborted; waitMs = Math.min(waitMs * 2, retryMs.max)) {
      try {
        return await resolver.resolve(did, refreshAfter === undefined ? {} : { refreshAfter })
      } catch (error) {
        if (!(error instanceof IdentityError)) throw error
        onUnresolved(did, error)
        waitMs = Math.max(waitMs, error.retryAfterMs ?? 0)
        if (!error.retryable || Date.now() + waitMs > receivedMs + waitMsMax) return undefined
      }
      // Stopping ends the wait, which the loop sees.
      await delay(waitMs, undefined, { signal }).catch(() => undefined)
    }
    return undefined
  }
}

function verify(message: SignedMessage, identity: Identity): Verdict {
  return verifyMessage(message, { key: identity.signingKey, nowMs: Date.now(), strict: true })
}

/** A signature is refused only against a document that was fetched after the event had arrived. */
function mayBeOldKey(verdict: Verdict, item: UpstreamItem, identity: Identity): boolean {
  const isKeyRefusal = !verdict.ok && (verdict.reason === 'bad-signature' || verdict.reason === 'missing-key')
  return isKeyRefusal && identity.fetchedAt < item.receivedMs
}
