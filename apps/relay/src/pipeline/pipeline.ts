/**
 * The way of one event, from a source's socket into the log: the lane of its account at its source → identity and host
 * authority → signature, structure and inversion (verifying threads) → account state → append. `decide.ts` says what
 * becomes of an event; this carries it out.
 *
 * Always holds: events of one account from one source are logged in the order in which they came, whatever waits or is
 * tried again. Nothing of one source or account waits for another one. An event is refused for a reason of a closed set
 * or logged, and only then is it done. What is thrown while one event is handled costs that event.
 *
 * It is in one piece because each step reads and changes the same few things: the event, its lane and its account.
 */
import { isStorageFault, type EventLog } from '@tributary/event-log'
import type { Identity, IdentityError, IdentityResolver } from '@tributary/identity'
import { IdentityReads, Lanes, type Lane, type LaneWork, type Outcome, type Wait } from '@tributary/lanes'
import { isPlcOrWeb, type Did } from '@tributary/protocol'
import {
  readMessage,
  type AccountBound,
  type AccountMessage,
  type IdentityMessage,
  type Message,
  type UnreadableMessage,
} from '@tributary/repo-verify'
import type { AccountRecovery } from '../accounts/account-recovery.ts'
import { systemClock, type Clock } from '../clock.ts'
import type { HostInquiry } from '../inquiry/host-inquiry.ts'
import type { RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import { finish, newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import type { AccountTable } from '../state/account-table.ts'
import { activeNoteOf, statusOf, type Account } from '../state/account.ts'
import type { StateTrail } from '../state/state-trail.ts'
import type { Verdict, Verified } from '../verify/verify-messages.ts'
import type { Verification } from '../verify/verify-pool.ts'
import { forgetOldBreaks, heldBackUntilMs, noteBreak } from './breaks.ts'
import {
  decideArrival,
  decideVerified,
  hasLeft,
  isMissedBy,
  isMove,
  revsOf,
  type Refuse,
  type WaitsFor,
} from './decide.ts'
import { IdentityGate } from './identity-gate.ts'
import { IdentityHints } from './identity-hints.ts'
import { KnownCollections } from './known-collections.ts'
import { plainBytesMax, pressure, waitLimits, type WaitLimits } from './limits.ts'
import { LogWriter } from './log-writer.ts'
import type { PipelineObserver } from './pipeline-observer.ts'
import { accountToPassOn, identityToPassOn, ownAccountMessage, type LogMessage } from './plain-events.ts'
import { accountKind, recordKinds } from './record-kinds.ts'

/** How often the host of an inactive account is asked again before its events are dropped, give or take a fifth. */
const askAgainMs = 300_000
/** A source that is not read brings no event by which to notice that it may be. */
const reliefMs = 100
/** Events of a source that are left out, because they are in its way, with each event that it brings; or each time. */
const relieved = { read: 4, held: 64 }

export interface PipelineOptions {
  log: EventLog
  accounts: AccountTable
  resolver: IdentityResolver
  /** Asks the hosts of accounts what they say now. */
  inquiry: Pick<HostInquiry, 'status'>
  trail: StateTrail
  /** Verifies commits and syncs. The pipeline closes it. */
  verification: Verification
  /** Whether sources without a rule of their own are held to Sync 1.1. */
  strict: boolean
  /** How long events wait for the identity of their account, in milliseconds. */
  identityWaitMsMax: number
  /** Why nothing counts that other relays forward of a PDS: the relay reads it itself, or has banned it. */
  refusalOfForwarded: (host: string) => RelayRefusal | undefined
  /** Whether another host than the one that was heard wrote for an account, and was left out; forgets that. */
  takeUnheard: (did: Did) => boolean
  /** The source that spoke for an account last. */
  speakerOf: (account: Account) => Source | undefined
  /** Makes up for what accounts miss. */
  recovery: Pick<AccountRecovery, 'missing' | 'lookAgainAt'>
  observer: PipelineObserver
  clock?: Clock
  /** Draws from 0 up to 1. */
  random?: () => number
  /** What may wait. */
  limits?: WaitLimits
}

type RelayLane = Lane<Source, UpstreamEvent>

export class Pipeline {
  readonly #options: PipelineOptions
  readonly #observer: PipelineObserver
  readonly #accounts: AccountTable
  readonly #clock: Clock
  readonly #verification: Verification
  readonly #hints: IdentityHints
  readonly #identityReads: IdentityReads
  readonly #identityGate = new IdentityGate()
  readonly #collections = new KnownCollections()
  readonly #lanes: Lanes<Source, UpstreamEvent>
  readonly #pendingMax: WaitLimits['pending']
  readonly #writer: LogWriter
  /** Sources that are not read because too much came after an event of theirs that waits. */
  readonly #heldUp = new Set<Source>()
  readonly #relief: Disposable
  #isPressed = false
  #isClosed = false
  #onPressure: (isPressed: boolean) => void = () => {}

  constructor(options: PipelineOptions) {
    const { resolver, observer, accounts, log, trail, verification, clock = systemClock, random } = options
    const { lanes, pending } = options.limits ?? waitLimits
    this.#options = options
    this.#observer = observer
    this.#accounts = accounts
    this.#clock = clock
    this.#hints = new IdentityHints(resolver)
    this.#identityReads = new IdentityReads(resolver, clock, random)
    const work: LaneWork<Source, UpstreamEvent> = {
      start: (event, lane) => this.#guarded(event, () => this.#start(event, lane)) ?? 'done',
      onFull: (event) =>
        this.#guarded(event, () => this.#leaveOut(event, 'too much waits for the identity of the account')),
      onPaused: (source, isPaused) => observer.onPaused(source, 'identities', isPaused),
    }
    this.#lanes = new Lanes(lanes, work, clock)
    this.#pendingMax = pending
    this.#writer = new LogWriter(log, trail, observer.onDurable)
    this.#verification = verification
    verification.onVerdict((...verdict) => this.#onVerdict(...verdict))
    this.#relief = clock.every(reliefMs, () =>
      this.#heldUp.forEach((source) => this.#relieve(source, relieved.held)),
    )
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

  /** Told when sources have to be paused, and when they may be read again. */
  onPressure(listener: (isPressed: boolean) => void): void {
    this.#onPressure = listener
  }

  /** A verifying thread died: the service stops. */
  onError(listener: (error: Error) => void): void {
    this.#verification.onError(listener)
  }

  /** Ends verification. What is under way is not done: it is read again from its source after the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#relief[Symbol.dispose]()
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
    const event = newEvent(source, this.#accounts.take(did), message, this.#clock.nowMs())
    source.begin(event.receipt)
    this.#guarded(event, () => this.#take(event, bytes))
    if (source.openSpan > this.#pendingMax.events) this.#relieve(source, relieved.read)
    this.#checkPressure()
    return upstreamSeq
  }

  #take(event: UpstreamEvent, bytes: number): void {
    const { source, account, message, receipt } = event
    const fate = source.fateOf(account.did, receipt.upstreamSeq)
    if (fate === 'done') this.#finish(event, 0)
    else if (fate === 'overtaken') this.#refuseOvertaken(event)
    else if (isPlain(message) && bytes > plainBytesMax)
      this.#refuse(event, 'oversize', `a message of type #${message.kind} with ${bytes} bytes`)
    else if (!isPlcOrWeb(account.did))
      this.#refuse(event, 'malformed-event', 'the account is not a did:plc or did:web')
    else this.#lanes.enter(source, account.did, event)
  }

  /** Passing now, an event would be logged after newer ones of its account. The #sync that makes up for it is not. */
  #refuseOvertaken(event: UpstreamEvent): void {
    const detail = 'newer events of the account are in the log since before the restart'
    const isMissed = !isPlain(event.message)
    this.#refuseFor(event, { to: 'refuse', reason: 'repeated', detail, isMissed })
  }

  /** Takes a `#sync` that the relay made of what the account's host gave it. It is checked like any other. */
  receiveOwn(source: Source, account: Account, frame: Uint8Array): void {
    const message = readMessage(frame)
    if (message.ok && message.kind === 'sync' && message.did === account.did)
      this.#lanes.enter(source, account.did, newEvent(source, account, message, this.#clock.nowMs(), 0))
  }

  /**
   * Leaves out the events that were in the way of their source for too long while too much came after them: the cursor
   * cannot pass them, and all that comes after them has to be remembered. A source with far too much is not read
   * meanwhile.
   * @param most that is left out now: each costs a tenth of a millisecond.
   */
  #relieve(source: Source, most: number): void {
    const { events, waitMs, eventsMax } = this.#pendingMax
    const dueMs = this.#clock.nowMs() - waitMs
    for (let left = most; left > 0 && source.openSpan > events; left--) {
      const { oldest } = source
      if (!oldest || oldest.receipt.receivedAtMs > dueMs) break
      const lane = source.lanes.get(oldest.account.did)
      if (!lane || !this.#lanes.drop(oldest, lane)) break
      this.#guarded(oldest, () => this.#leaveOut(oldest, 'too much came after it while it waited'))
    }
    const isHeldUp = source.openSpan > eventsMax
    if (isHeldUp === this.#heldUp.has(source)) return
    if (isHeldUp) this.#heldUp.add(source)
    else this.#heldUp.delete(source)
    this.#observer.onPaused(source, 'held-up', isHeldUp)
  }

  /** Logs an `#account` of our own, after something other than an event has changed the account. */
  announce(account: Account): void {
    const origin = { kind: accountKind(account), source: account.sourceId, epoch: 0, upstreamSeq: 0 }
    this.#writer.append(origin, account, ownAccountMessage(account, this.#clock.nowMs()))
    this.#observer.onStatus(account)
  }

  /** Notes what a host says of an account. What is missed while it is away cannot be told. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    if (upstreamStatus !== account.upstreamStatus && upstreamStatus !== 'active')
      account.isDesynchronized = true
    if (upstreamStatus !== 'active') account.activeNote = undefined
    if (upstreamStatus === 'deleted') this.#collections.forget(account)
    this.#accounts.assign(account, sourceId, upstreamStatus)
  }

  /** Forgets an account of which nothing has passed, for hosts may name as many as they like. */
  forget(account: Account | undefined): void {
    if (!account || account.underWay > 0) return
    const { sourceId, isIncomplete, localStatus } = account
    if (sourceId === 0 && !isIncomplete && localStatus === undefined) this.#accounts.forget(account)
  }

  /** What is thrown costs the event. Undefined when something was. @throws what a storage fault throws. */
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
      this.#leaveOut(event, detail, 'internal-error')
    } catch (error) {
      if (isStorageFault(error)) throw error
      // The defect lies in leaving it out. The cursor passes it all the same.
      if (event.receipt.event) this.#finish(event, 0)
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
    })
    switch (decision.to) {
      case 'wait':
        return this.#waitOf(event, lane, decision.for)
      case 'refuse':
        return this.#refuseFor(event, decision)
      case 'verify':
        this.#verification.add(event, lane, decision.key, this.#isStrict(source))
        return 'away'
      case 'pass-on':
        if (message.kind === 'identity') this.#passIdentity(event, message, identity)
        else if (message.kind === 'account') this.#passAccount(event, message, account)
        return 'done'
    }
  }

  /** What an event waits for. It is started again when that is there, or is known not to come. */
  #waitOf(event: UpstreamEvent, lane: RelayLane, what: WaitsFor): Outcome {
    switch (what) {
      case 'verdicts':
        return 'after-those-away'
      case 'identity':
        return this.#wait(event, (signal) => this.#readIdentity(event, lane, 0, signal))
      case 'fresh-identity':
        return this.#wait(event, (signal) =>
          this.#readIdentity(event, lane, event.receipt.receivedAtMs, signal),
        )
      case 'confirmation':
        return this.#wait(event, async () => {
          const { account, source } = event
          const status = await this.#options.inquiry.status(account.did, { cause: source.host })
          event.confirmedStatus = status ?? 'unknown'
        })
      case 'status':
        return this.#wait(event, () => this.#askHost(event))
    }
  }

  /** What is thrown while an event waits costs the event. */
  #wait(event: UpstreamEvent, wait: Wait): Wait {
    return async (signal) => {
      try {
        await wait(signal)
      } catch (error) {
        if (isStorageFault(error)) throw error
        this.#observer.onInternalError(event.source, error, event.message.bytes, event)
        event.waitFault = 'internal-error'
      }
    }
  }

  async #readIdentity(
    event: UpstreamEvent,
    lane: RelayLane,
    refreshAfter: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { account, receipt, source } = event
    const untilMs = receipt.receivedAtMs + this.#options.identityWaitMsMax
    const onFault = (error: IdentityError): void => {
      // What cannot be read may stay so for long. What was not asked for yet comes soon.
      if (!error.isOwnLimit) this.#lanes.discount(lane)
      this.#observer.onIdentityFault(account.did, error)
    }
    const request = { untilMs, refreshAfter, onBehalfOf: source.host, signal, onFault }
    const outcome = await this.#identityReads.read(account.did, request)
    if (outcome !== 'ready') event.waitFault = outcome
  }

  /** An event says that its account is not away any more: whether that is so is for the account's host to say. */
  async #askHost(event: UpstreamEvent): Promise<void> {
    const { account, source } = event
    account.askedAtMs = this.#clock.nowMs()
    event.statusCheck = 'asked'
    const status = await this.#options.inquiry.status(account.did, { cause: source.host })
    if (status !== 'active' || this.#isClosed || account.upstreamStatus === 'active') return
    // The account may have moved on meanwhile, and another host was asked.
    if (source.policy.kind === 'pds' && this.#hostOf(account) !== source.host) return
    this.assign(account, source.id, status)
    this.announce(account)
    // What it wrote while it was taken for away was left out.
    this.markMissing(account, source)
  }

  /** Passes an `#identity` on for its hint. A handle that the document does not declare is left out. */
  #passIdentity(event: UpstreamEvent, message: IdentityMessage, identity: Identity | undefined): void {
    const { account, receipt } = event
    const plain = identityToPassOn(message, identity?.handle)
    const refusal = this.#identityGate.refusalOf(account.did, plain, receipt.receivedAtMs)
    if (refusal) this.#refuse(event, refusal.reason, refusal.detail)
    else this.#append(event, plain, recordKinds.identity)
  }

  #passAccount(event: UpstreamEvent, message: AccountMessage, account: Account): void {
    const { source } = event
    const upstreamStatus = statusOf(message)
    const wasThrottled = account.throttledAtMs > 0
    const isUnheard = source.unheard.delete(account.did)
    const hasMoved = isMove(this.#options.speakerOf(account), source)
    this.assign(account, source.id, upstreamStatus)
    account.activeNote = activeNoteOf(message)
    if (isUnheard || hasMoved || (wasThrottled && account.throttledAtMs === 0))
      this.markMissing(account, source)
    this.#append(event, accountToPassOn(message, account), accountKind(account))
    this.#observer.onStatus(account)
    if (upstreamStatus === 'active' && account.isIncomplete)
      this.#options.recovery.missing(account, { cause: source.host })
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
    this.#refuseFor(event, { to: 'refuse', reason, detail, isMissed: isMissedBy(reason) })
  }

  /** The checks that need the account's state, at the moment of logging. */
  #admit(event: UpstreamEvent, verified: Verified, bytes: Buffer): 'again' | undefined {
    const { source, account, receipt } = event
    if (forgetOldBreaks(account, receipt.receivedAtMs)) this.announce(account)
    const decision = decideVerified(event, verified, {
      host: () => this.#hostOf(account),
      isStrict: this.#isStrict(source),
      mayAsk: () => this.#mayAsk(account),
    })
    switch (decision.to) {
      case 'refuse':
        this.#refuseFor(event, decision)
        return undefined
      case 'ignore':
        this.#observer.onRepeated(source, event)
        this.#finish(event, 0)
        return undefined
      case 'ask-status':
        event.statusCheck = 'wanted'
        return 'again'
      case 'start-again':
        return 'again'
      case 'log':
        this.#log(event, verified, bytes, decision.breaksChain)
        return undefined
    }
  }

  #mayAsk({ askedAtMs, logId }: Account): boolean {
    return this.#clock.nowMs() - askedAtMs > askAgainMs * (0.8 + Number(logId % 400n) / 1000)
  }

  /** Logs a commit or sync, if the account has a slot and its chain does not break too often. */
  #log(event: UpstreamEvent, verified: Verified, bytes: Buffer, breaksChain: boolean): void {
    const { source, account, message, receipt } = event
    if (breaksChain && !noteBreak(account, receipt.receivedAtMs)) {
      this.#holdBack(account, source)
      return this.#refuse(event, 'too-many-breaks', revsOf(account, verified), this.#storedBy)
    }
    const wasThrottled = account.throttledAtMs > 0
    // What it wrote while it had no slot, or while it moved, may have been left out.
    const hasMoved = account.sourceId !== 0 && account.sourceId !== source.id
    const isUnheard = source.unheard.delete(account.did)
    const isGap = breaksChain && (this.#options.takeUnheard(account.did) || hasMoved)
    this.#accounts.assign(account, source.id, account.upstreamStatus)
    if (account.throttledAtMs > 0) {
      // Log the exclusion once. Later events of the account are refused and leave no other durable trace.
      if (!wasThrottled) this.announce(account)
      return this.#refuse(event, 'over-quota', 'its host has no slot for it', this.#storedBy)
    }
    if (wasThrottled || isUnheard || isGap) this.markMissing(account, source)
    if (wasThrottled) this.announce(account)
    this.#noteWaived(event, verified)
    if (breaksChain) {
      account.isDesynchronized = true
      this.#observer.onDiscontinuity(source)
    }
    if (verified.kind === 'sync') account.isDesynchronized = account.isIncomplete = false
    account.rev = verified.rev
    account.commit = verified.commit
    account.data = verified.data
    const { seqStart, seqEnd } = message
    const newCollections = this.#collections.note(account, verified.collections)
    this.#append(event, { bytes, seqStart, seqEnd }, recordKinds[message.kind], newCollections)
  }

  #noteWaived({ source, account }: UpstreamEvent, { kind, prevData, waived = [] }: Verified): void {
    for (const reason of waived) this.#observer.onWaived(source, reason)
    const hasNoChain = kind === 'commit' && !prevData && account.rev !== undefined
    if (hasNoChain && !this.#isStrict(source)) this.#observer.onWaived(source, 'missing-prev-data')
  }

  #isStrict({ policy }: Source): boolean {
    return policy.validation === undefined ? this.#options.strict : policy.validation === 'strict'
  }

  #append(event: UpstreamEvent, message: LogMessage, kind: number, newCollections?: readonly string[]): void {
    const { source, account, receipt } = event
    const { epoch, upstreamSeq } = receipt
    const origin = { kind, source: source.id, epoch, upstreamSeq }
    this.#finish(event, this.#writer.append(origin, account, message, newCollections))
  }

  /** What is marked now is stored together with this seq of ours, or before. */
  get #storedBy(): number {
    const { log } = this.#options
    return log.pendingBytes === 0 ? log.visibleSeq : log.nextSeq - 1
  }

  /** Marks an account of which something was left out, so that its current commit is fetched. */
  markMissing(account: Account, { host: cause }: Source): void {
    const isAskedFor = this.#options.recovery.missing(account, { cause })
    // An account that nobody has spoken for is kept only as long as it is asked for.
    if (!isAskedFor && account.sourceId === 0) return
    account.isDesynchronized = account.isIncomplete = true
    this.#store(account)
  }

  /** Commits that break the chain are left out until the window is over, which consumers are told once. */
  #holdBack(account: Account, { host: cause }: Source): void {
    const { breaks, isIncomplete } = account
    if (!breaks || (breaks.areTooMany && isIncomplete)) return
    account.isDesynchronized = account.isIncomplete = true
    if (breaks.areTooMany) this.#store(account)
    else {
      breaks.areTooMany = true
      this.announce(account)
    }
    this.#options.recovery.missing(account, { cause, notBeforeMs: heldBackUntilMs(account) })
  }

  #store(account: Account): void {
    this.#options.trail.push(this.#storedBy, account)
  }

  /** Refuses an event for no fault of its own. What the account misses by that is made up for. */
  #leaveOut(event: UpstreamEvent, detail: string, reason: RelayRefusal = 'identity-unavailable'): void {
    this.#refuseFor(event, { to: 'refuse', reason, detail, isMissed: true })
  }

  #refuseFor(event: UpstreamEvent, { reason, detail, isMissed }: Refuse): 'done' {
    const isUnheard = reason === 'wrong-host' || (isMissed && this.#isStranger(event))
    if (isUnheard) this.#noteUnheard(event)
    else if (isMissed) this.markMissing(event.account, event.source)
    this.#refuse(event, reason, detail, isUnheard || isMissed ? this.#storedBy : 0)
    return 'done'
  }

  /** Whether an event comes from another host than the account's, as far as is known. */
  #isStranger({ account, source }: UpstreamEvent): boolean {
    const isSpeaker = account.sourceId === 0 || account.sourceId === source.id
    return !isSpeaker && this.#hostOf(account) !== source.host
  }

  /**
   * Another host than the account's must not mark the account. But it may turn out to be the account's, or may have been
   * it for a while: then its commits are missing where the chain of the account is broken, before or after, or where the
   * account has moved on to a host that has said nothing yet. Recovery finds out about the others.
   */
  #noteUnheard({ account, source, message }: UpstreamEvent): void {
    source.unheard.add(account.did)
    const { recovery, speakerOf } = this.#options
    const { isDesynchronized, isIncomplete, upstreamStatus } = account
    const hasGap = isDesynchronized && !isIncomplete && upstreamStatus === 'active'
    const isElsewhere = hasLeft(speakerOf(account), this.#hostOf(account))
    if (isElsewhere || (hasGap && !isPlain(message))) this.markMissing(account, source)
    recovery.lookAgainAt(account, source, !isPlain(message))
  }

  /** The host that the account's document names, as far as is known now. */
  #hostOf({ did }: Account): string | undefined {
    return this.#options.resolver.peek(did)?.pdsHost
  }

  /** @param doneBy as in `Receipt`: for what must not be forgotten when the cursor has passed the event. */
  #refuse(event: UpstreamEvent, reason: RelayRefusal, detail: string, doneBy = 0): void {
    const { source, account, message, receipt } = event
    const { upstreamSeq } = receipt
    if (upstreamSeq > 0)
      this.#observer.onRefused(source, reason, detail, {
        did: account.did,
        upstreamSeq,
        type: `#${message.kind}`,
      })
    this.#finish(event, 0, doneBy)
  }

  #finish(event: UpstreamEvent, loggedAs: number, doneBy?: number): void {
    finish(event, loggedAs, doneBy)
    this.forget(event.account)
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

function isPlain({ kind }: Pick<AccountBound, 'kind'>): boolean {
  return kind === 'identity' || kind === 'account'
}

function isAccountBound(message: Message): message is AccountBound {
  return 'did' in message
}

/** What the header of a message says, within bounds. */
function typeOf(message: Message | UnreadableMessage): string {
  const type = !message.ok ? message.type : message.kind === 'unknown' ? message.t : `#${message.kind}`
  return (type ?? '').slice(0, 32)
}
