/**
 * Commits and syncs on their way to a verdict: each is verified with the key that the DID document of its account names,
 * for the collections that are watched. A signature is refused only against a document that was read after the event had
 * arrived. Verdicts on the events of one account come in the order of these.
 */
import { isStorageFault } from '@tributary/event-log'
import type { IdentityError, IdentityResolver } from '@tributary/identity'
import { IdentityReads, type Clock, type Lanes, type Outcome } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import type { WatchPolicy } from '../policy/watched-collections.ts'
import type { StreamVerification, Verdict } from '../verify/verification.ts'
import type { AnyEvent, EventLane, RelayEvent, Upstream } from './relay-event.ts'

interface SignedEventsOptions {
  resolver: IdentityResolver
  verification: StreamVerification
  lanes: Lanes<Upstream, AnyEvent>
  watched: Pick<WatchPolicy, 'names'>
  clock: Clock
  random: (() => number) | undefined
  /** The verdict on an event. Its bytes are only good during the call. */
  onVerdict: (event: RelayEvent, verdict: Verdict) => void
  /** An event came back from verification. */
  onHandled: () => void
  /** A document could not be read. It is tried again. */
  onUnresolved: (did: Did, error: IdentityError) => void
  /** What was thrown while a document was read, which costs the event. */
  onDefect: (event: RelayEvent, error: unknown) => void
}

/** How long an event waits for the document of its account. */
const identityWaitMsMax = 600_000

export class SignedEvents {
  readonly #options: SignedEventsOptions
  readonly #identityReads: IdentityReads

  constructor(options: SignedEventsOptions) {
    const { resolver, verification, clock, random } = options
    this.#options = options
    this.#identityReads = new IdentityReads(resolver, clock, random)
    verification.onVerdict((...verdict) => this.#onVerdict(...verdict))
  }

  /** Has an event verified, as soon as the identity of its account is there. */
  start(event: RelayEvent, lane: EventLane): Outcome {
    const { resolver, verification, watched, clock } = this.#options
    const nowMs = clock.nowMs()
    // After the clock was set back, no document would be newer than an event of a time to come.
    event.receivedMs = Math.min(event.receivedMs, nowMs)
    event.keySinceMs = Math.min(event.keySinceMs, nowMs)
    const identity = resolver.peek(lane.did)
    if (!identity || identity.fetchedAt < event.keySinceMs)
      return async (signal) => await this.#readIdentity(event, lane, signal)
    event.verifiedWith = { identity, collections: watched.names() }
    verification.add(event, lane, identity.signingKey, true)
    return 'away'
  }

  #onVerdict(event: RelayEvent, lane: EventLane, verdict: Verdict, bytes: Buffer): void {
    const { lanes, onVerdict, onHandled } = this.#options
    event.message.bytes = bytes
    if (lanes.mustFollow(lane) || this.#mustTryAgain(event, verdict)) {
      lanes.giveBack(event, lane, bytes)
    } else {
      onVerdict(event, verdict)
      lanes.settle(lane)
    }
    onHandled()
  }

  #mustTryAgain(event: RelayEvent, verdict: Verdict): boolean {
    const { verifiedWith, receivedMs } = event
    // What was verified for other collections than those that are watched now may lack operations.
    if (!verifiedWith || verifiedWith.collections !== this.#options.watched.names()) return true
    if (verdict.ok) return false
    const { signingKey, fetchedAt } = verifiedWith.identity
    // The thread has dropped the key, which is sent again.
    if (verdict.reason === 'missing-key' && signingKey) return true
    const isKeyRefusal = verdict.reason === 'bad-signature' || verdict.reason === 'missing-key'
    if (!isKeyRefusal || fetchedAt >= receivedMs) return false
    event.keySinceMs = receivedMs
    return true
  }

  async #readIdentity(event: RelayEvent, lane: EventLane, signal: AbortSignal): Promise<void> {
    const { lanes, onUnresolved, onDefect } = this.#options
    const { receivedMs, keySinceMs: refreshAfter } = event
    const { did } = lane
    // Anybody can have a host of did:web that never answers. The PLC directory is the operator's choice.
    if (!did.startsWith('did:plc:')) lanes.discount(lane)
    const onFault = (error: IdentityError): void => {
      if (!error.isOwnLimit) lanes.discount(lane)
      onUnresolved(did, error)
    }
    const untilMs = receivedMs + identityWaitMsMax
    try {
      const outcome = await this.#identityReads.read(did, { untilMs, refreshAfter, signal, onFault })
      if (outcome !== 'ready') event.waitFault = 'identity-unavailable'
    } catch (error) {
      if (isStorageFault(error)) throw error
      onDefect(event, error)
      event.waitFault = 'internal-error'
    }
  }
}
