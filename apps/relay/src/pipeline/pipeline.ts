/**
 * The way of one event, from a source's socket into the log: the lane of its account at its source → identity and host
 * authority → signature, structure and inversion (verifying threads) → account state → append. `decide.ts` says what
 * becomes of an event; this carries it out.
 *
 * Always holds: events of one account from one source are logged in the order in which they came, whatever waits or is
 * tried again. No source or account waits for another. An event is done only when it was logged, ignored, or refused for a
 * reason of a closed set. An error that is thrown while one event is handled costs only that event.
 *
 * Elsewhere: what an event waits for (`event-waits.ts`), how its way ends (`outcomes.ts`), and sources that are held up
 * by one event (`held-up-sources.ts`).
 */
import { isStorageFault } from '@tributary/event-log'
import { Lanes, type Lane, type LaneWork, type Outcome } from '@tributary/lanes'
import { isPlcOrWeb } from '@tributary/protocol'
import { readMessage, type AccountBound, type Message, type UnreadableMessage } from '@tributary/repo-verify'
import { systemClock, type Clock } from '../clock.ts'
import type { HostInquiry } from '../inquiry/host-inquiry.ts'
import type { RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import { newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { Account } from '../state/account.ts'
import type { RelayVerification, Verdict } from '../verify/verification.ts'
import type { Verified } from '../verify/verified.ts'
import { forgetOldBreaks } from './breaks.ts'
import { decideArrival, decideVerified, isMissedBy, isPlain } from './decide.ts'
import { EventWaits } from './event-waits.ts'
import { HeldUpSources } from './held-up-sources.ts'
import { IdentityHints } from './identity-hints.ts'
import { plainBytesMax, pressure, waitLimits, type WaitLimits } from './limits.ts'
import { Outcomes, type OutcomeOptions } from './outcomes.ts'
import type { PipelineObserver } from './pipeline-observer.ts'

/** Time between two questions to the host of an inactive account, plus or minus a fifth. Commits in between are refused. */
const askAgainMs = 300_000

export interface PipelineOptions extends OutcomeOptions {
  /** Asks the hosts of accounts what they say now. */
  inquiry: Pick<HostInquiry, 'status'>
  /** Verifies commits and syncs. The pipeline closes it. */
  verification: RelayVerification
  /** How long events wait for the identity of their account, in milliseconds. */
  identityWaitMsMax: number
  /**
   * Why events of a host do not count when another relay forwards them: the relay reads the host itself, or has banned
   * it. Undefined when they do.
   */
  refusalOfForwarded: (host: string) => RelayRefusal | undefined
  clock?: Clock
  /** A random number, at least 0 and below 1. Default: that of the system. */
  random?: () => number
  /** Bounds on what may wait. Default: `waitLimits`. */
  limits?: WaitLimits
}

type RelayLane = Lane<Source, UpstreamEvent>

export class Pipeline {
  /** What ends the way of an event, and what recovery does to accounts. */
  readonly outcomes: Outcomes
  readonly #options: PipelineOptions
  readonly #observer: PipelineObserver
  readonly #accounts: AccountTable
  readonly #clock: Clock
  readonly #verification: RelayVerification
  readonly #hints: IdentityHints
  readonly #lanes: Lanes<Source, UpstreamEvent>
  readonly #waits: EventWaits
  readonly #heldUp: HeldUpSources
  /** Place of the newest event that came. */
  #newest = 0
  #isPressed = false
  #isClosed = false
  #onPressure: (isPressed: boolean) => void = () => {}

  constructor(options: PipelineOptions) {
    const { resolver, observer, accounts, log, trail, verification, clock = systemClock } = options
    const { inquiry, identityWaitMsMax, random, limits = waitLimits } = options
    const outcomes = new Outcomes(options, clock)
    this.outcomes = outcomes
    this.#options = options
    this.#observer = observer
    this.#accounts = accounts
    this.#clock = clock
    this.#hints = new IdentityHints(resolver)
    const work: LaneWork<Source, UpstreamEvent> = {
      start: (event, lane) => this.#guarded(event, () => this.#start(event, lane)) ?? 'done',
      onFull: (event) =>
        this.#guarded(event, () =>
          outcomes.leaveOut(event, 'too much waits for the identity of the account'),
        ),
      onPaused: (source, isPaused) => observer.onPaused(source, 'identities', isPaused),
    }
    const lanes = new Lanes(limits.lanes, work, clock)
    this.#lanes = lanes
    this.#waits = new EventWaits({
      resolver,
      inquiry,
      identityWaitMsMax,
      clock,
      random,
      observer,
      discount: (lane) => lanes.discount(lane),
      onActive: (event) => this.#isBack(event),
    })
    this.#heldUp = new HeldUpSources({
      max: limits.pending,
      clock,
      leaveOut: (event) => this.#drop(event),
      onHeldUp: (source, isHeldUp) => observer.onPaused(source, 'held-up', isHeldUp),
    })
    this.#verification = verification
    verification.onVerdict((...verdict) => this.#onVerdict(...verdict))
    log.onDurable(() => this.#checkPressure())
    trail.onWritten(() => this.#checkPressure())
  }

  /** What waits for something outside before it can start or finish. */
  get waiting(): { lanes: number; events: number; eventsMax: number; bytes: number } {
    return { ...this.#lanes.depth(), bytes: this.#lanes.bytes }
  }

  /** Milliseconds that verifying threads have worked, all together. */
  get verifyBusyMs(): number {
    return this.#verification.busyMs
  }

  /** Sets the one listener, which is called with true to pause all sources, and with false to read them again. */
  onPressure(listener: (isPressed: boolean) => void): void {
    this.#onPressure = listener
  }

  /** Calls the listener when a verifying thread has died. Nothing is lost by it. */
  onThreadDied(listener: (error: Error) => void): void {
    this.#verification.onThreadDied(listener)
  }

  /** Ends verification. What is under way is not done: it is read again from its source after the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#heldUp[Symbol.dispose]()
    this.#lanes.close()
    await this.#verification.close()
  }

  /**
   * Takes one message of a source. Its bytes may be used again by the caller when this returns.
   * @param bytes length of the message.
   * @param lastSeq the newest seq that came on the same connection; 0 on the first message.
   * @returns the seq of the message, or `lastSeq` when it has none that counts.
   */
  receive(source: Source, message: Message | UnreadableMessage, bytes: number, lastSeq: number): number {
    const { onReceived, onRefused } = this.#observer
    const type = typeOf(message)
    onReceived(source, type, bytes)
    if (!message.ok) {
      onRefused(source, message.reason, message.detail, { type })
      return lastSeq
    }
    if (!isAccountBound(message)) {
      if (message.kind !== 'info') onRefused(source, 'unknown-event', `a message of type ${type}`, { type })
      return lastSeq
    }
    const { did, upstreamSeq } = message
    if (upstreamSeq <= lastSeq) {
      const detail = `seq ${upstreamSeq} came after ${lastSeq}`
      onRefused(source, 'seq-not-increasing', detail, { did, upstreamSeq, type })
      return lastSeq
    }
    const [account, nowMs] = [this.#accounts.take(did), this.#clock.nowMs()]
    const event = newEvent(source, account, message, nowMs, upstreamSeq, ++this.#newest)
    source.begin(event.receipt)
    this.#options.trail.receive()
    this.#guarded(event, () => this.#take(event, bytes))
    this.#heldUp.look(source)
    this.#checkPressure()
    return upstreamSeq
  }

  #take(event: UpstreamEvent, bytes: number): void {
    const { source, account, message, receipt } = event
    const fate = source.fateOf(account.did, receipt.upstreamSeq)
    if (fate === 'done') this.outcomes.finish(event, 0)
    else if (fate === 'overtaken') this.#refuseOvertaken(event)
    else if (isPlain(message) && bytes > plainBytesMax)
      this.outcomes.refuse(event, 'oversize', `a message of type #${message.kind} with ${bytes} bytes`)
    else if (!isPlcOrWeb(account.did))
      this.outcomes.refuse(event, 'malformed-event', 'the account is not a did:plc or did:web')
    else this.#lanes.enter(source, account.did, event)
  }

  /**
   * Refuses an event that would be logged after newer ones of its account. If it was a commit or sync, a `#sync` of our
   * own makes up for it.
   */
  #refuseOvertaken(event: UpstreamEvent): void {
    const detail = 'newer events of the account are in the log since before the restart'
    const isMissed = !isPlain(event.message)
    this.outcomes.refuseFor(event, { to: 'refuse', reason: 'repeated', detail, isMissed })
  }

  /** @see Receipt.place */
  get newest(): number {
    return this.#newest
  }

  /**
   * Takes a `#sync` that the relay made of what the account's host gave it. It is checked like any other.
   * @param place of the newest event when the host was asked.
   */
  receiveOwn(source: Source, account: Account, frame: Uint8Array, place: number): void {
    const message = readMessage(frame)
    if (message.ok && message.kind === 'sync' && message.did === account.did)
      this.#lanes.enter(
        source,
        account.did,
        newEvent(source, account, message, this.#clock.nowMs(), 0, place),
      )
  }

  /** Leaves out an event that waits, or a `#sync` of our own that waits before it. False when neither does. */
  #drop(event: UpstreamEvent): boolean {
    const lane = event.source.lanes.get(event.account.did)
    const head = lane?.waiting[0]
    const first = head?.receipt.upstreamSeq === 0 ? head : event
    if (!lane || !this.#lanes.drop(first, lane)) return false
    this.#guarded(first, () => this.outcomes.leaveOut(first, 'too much came after it while it waited'))
    return true
  }

  /** The host of an account that is inactive here says that it is active. */
  #isBack({ account, source, receipt }: UpstreamEvent): void {
    // The account may have moved on meanwhile, and another host was asked.
    const host = this.outcomes.hostOf(account) ?? ''
    const hasMovedOn = source.policy.kind === 'pds' && host !== source.host
    const isBanned = source.isBanned || this.#options.refusalOfForwarded(host) === 'host-banned'
    if (this.#isClosed || hasMovedOn || isBanned) return
    this.outcomes.assign(account, source.id, 'active')
    this.outcomes.announce(account)
    // Commits that came while the account was inactive here were left out.
    this.outcomes.markMissing(account, source, receipt.place)
  }

  /** Handles an event. An error costs only that event, and undefined is returned. @throws storage faults. */
  #guarded<T>(event: UpstreamEvent, handle: () => T): T | undefined {
    const { bytes } = event.message
    try {
      return handle()
    } catch (error) {
      if (isStorageFault(error)) throw error
      this.#observer.onInternalError(event.source, error, bytes, event)
      if (event.receipt.event) this.#leaveOutForDefect(event)
      return undefined
    }
  }

  #leaveOutForDefect(event: UpstreamEvent): void {
    const detail = 'a defect of this relay'
    try {
      this.outcomes.leaveOut(event, detail, 'internal-error')
    } catch (error) {
      if (isStorageFault(error)) throw error
      // Leaving it out failed, too. The cursor passes the event all the same.
      if (event.receipt.event) this.outcomes.finish(event, 0)
      this.#observer.onRefused(event.source, 'internal-error', detail, { did: event.account.did })
    }
  }

  #start(event: UpstreamEvent, lane: RelayLane): Outcome {
    const { source, account, message } = event
    const identity = this.#hints.identityFor(event)
    const decision = decideArrival(event, {
      identity,
      areOthersAway: lane.away > 0,
      refusalOfForwarded: this.#options.refusalOfForwarded,
      hasPlace: (isActive) => this.#accounts.hasPlaceFor(source.id, isActive),
      speaker: this.#options.speakerOf(account),
    })
    switch (decision.to) {
      case 'wait':
        return this.#waits.waitOf(event, lane, decision.for)
      case 'refuse':
        return this.outcomes.refuseFor(event, decision)
      case 'verify':
        this.#verification.add(event, lane, decision.key, this.outcomes.isStrict(source))
        return 'away'
      case 'pass-on':
        if (message.kind === 'identity') this.outcomes.passIdentity(event, message, identity)
        else if (message.kind === 'account') this.outcomes.passAccount(event, message, account)
        return 'done'
      case 'ignore':
        return this.#ignore(event)
    }
  }

  /** A verdict came back from a thread. Those of one lane come in the order in which they went. */
  #onVerdict(event: UpstreamEvent, lane: RelayLane, verdict: Verdict, bytes: Buffer): void {
    const isLate = this.#lanes.mustFollow(lane) || this.#mustTryAgain(event, verdict)
    event.message.bytes = bytes
    const outcome = isLate
      ? 'again'
      : this.#guarded(event, () =>
          verdict.ok ? this.#admit(event, verdict, bytes) : this.#refuseVerdict(event, verdict),
        )
    if (outcome === 'again') this.#lanes.giveBack(event, lane, bytes)
    else this.#lanes.settle(lane)
    this.#checkPressure()
  }

  /** A signature is refused only against a key that was fetched after the event came in. */
  #mustTryAgain(event: UpstreamEvent, verdict: Verdict): boolean {
    if (verdict.ok) return false
    // The thread has dropped the key, which is sent again.
    if (verdict.reason === 'missing-key') return true
    if (verdict.reason !== 'bad-signature' || event.needsFreshKey) return false
    event.needsFreshKey = true
    return true
  }

  #refuseVerdict(event: UpstreamEvent, { reason, detail, ...rest }: Verdict & { ok: false }): undefined {
    if ('error' in rest) throw rest.error
    this.outcomes.refuseFor(event, {
      to: 'refuse',
      reason,
      detail,
      isMissed: isMissedBy(reason, event.source),
    })
  }

  /** The checks that need the account's state, at the moment of logging. */
  #admit(event: UpstreamEvent, verified: Verified, bytes: Buffer): 'again' | undefined {
    const { source, account, receipt } = event
    if (forgetOldBreaks(account, receipt.receivedAtMs)) this.outcomes.announce(account)
    const decision = decideVerified(event, verified, {
      host: () => this.outcomes.hostOf(account),
      isStrict: this.outcomes.isStrict(source),
      refusalOfForwarded: this.#options.refusalOfForwarded,
      mayAsk: () => this.#mayAsk(account),
    })
    switch (decision.to) {
      case 'refuse':
        this.outcomes.refuseFor(event, decision)
        return undefined
      case 'ignore':
        this.#ignore(event)
        return undefined
      case 'ask-status':
        event.statusCheck = 'wanted'
        return 'again'
      case 'start-again':
        return 'again'
      case 'log':
        this.outcomes.log(event, verified, bytes, decision.breaksChain)
        return undefined
    }
  }

  /** An event said what is known already. */
  #ignore(event: UpstreamEvent): 'done' {
    this.#observer.onRepeated(event.source, event)
    this.outcomes.finish(event, 0)
    return 'done'
  }

  #mayAsk({ askedAtMs, logId }: Account): boolean {
    const sinceMs = this.#clock.nowMs() - askedAtMs
    // Below 0: the clock was set back.
    return sinceMs < 0 || sinceMs > askAgainMs * (0.8 + Number(logId % 400n) / 1000)
  }

  #checkPressure(): void {
    const { log, trail } = this.#options
    const bytes = this.#verification.pendingBytes + log.pendingBytes
    const isHigh = trail.isFull || bytes >= (this.#isPressed ? pressure.low : pressure.high)
    if (isHigh === this.#isPressed) return
    this.#isPressed = !this.#isPressed
    this.#onPressure(this.#isPressed)
  }
}

function isAccountBound(message: Message): message is AccountBound {
  return 'did' in message
}

/** What the header of a message says, within bounds. */
function typeOf(message: Message | UnreadableMessage): string {
  const type = !message.ok ? message.type : message.kind === 'unknown' ? message.t : `#${message.kind}`
  return (type ?? '').slice(0, 32)
}
