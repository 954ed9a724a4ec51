/**
 * The way of one event, from a source's socket into the log:
 * route by DID → lane → identity and host authority → signature, structure and inversion (verify threads) → account
 * state → append.
 *
 * Always holds: events of one DID are logged in the order in which their authoritative hosts sent them, whatever waits
 * or is tried again; an event is refused for a reason of a closed set or logged, and only then is it done; nothing
 * here waits for one account on behalf of another.
 * An account whose document names another host than the sender does not make its own lane wait: the sender's events
 * stand aside until the document has been read again.
 */
import { isPlcOrWeb, type Did } from '@tributary/protocol'
import type { Identity, IdentityError } from '@tributary/identity'
import {
  readMessage,
  type AccountBound,
  type AccountMessage,
  type IdentityMessage,
  type Message,
  type UnreadableMessage,
} from '@tributary/repo-verify'
import type { RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import { finish, newEvent, type UpstreamEvent } from '../sources/upstream-event.ts'
import { activeNoteOf, statusOf, type Account } from '../state/account.ts'
import type { Verdict, Verified } from '../verify/verify-messages.ts'
import { VerifyPool } from '../verify/verify-pool.ts'
import { chainRefusalOf, continues, exclusionOf, forgetOldBreaks, noteBreak } from './admission.ts'
import { Identities, type IdentityOutcome } from './identities.ts'
import { IdentityGate } from './identity-gate.ts'
import { IncompleteAccounts } from './incomplete-accounts.ts'
import { isBefore, Lanes } from './lanes.ts'
import { LogWriter } from './log-writer.ts'
import { forgetCollections, noteCollections } from './note-collections.ts'
import type { PipelineOptions } from './pipeline-options.ts'
import { accountToPassOn, identityToPassOn, ownAccountMessage, type LogMessage } from './plain-events.ts'
import { accountKind, recordKinds } from './record-kinds.ts'
import { SourceBreaks } from './source-breaks.ts'

/** Bytes under way above which sources are not read, and below which they are again. */
const pressure = { high: 2 * 1024 * 1024, low: 1024 * 1024 }
/** Of an `#identity` or `#account`: both say little. */
const plainBytesMax = 16 * 1024
/** How often the host of an inactive account is asked again before its events are dropped, give or take a fifth. */
const askAgainMs = 300_000
/**
 * Events of a source that may be remembered behind one that waits, and how long that one may wait when there are more:
 * as long as reading one DID document may take, and a little more.
 */
const heldUp = { events: 4000, waitMs: 10_000 }

const unreadable = 'the identity of the account could not be read'

export class Pipeline {
  readonly #options: PipelineOptions
  readonly #pool: VerifyPool
  readonly #identities: Identities
  readonly #lanes: Lanes
  readonly #breaks: SourceBreaks
  readonly #writer: LogWriter
  readonly #incomplete: IncompleteAccounts
  readonly #identityGate = new IdentityGate()
  #isPressed = false
  #isClosed = false
  #onPressure: (isPressed: boolean) => void = () => {}

  constructor(options: PipelineOptions) {
    this.#options = options
    const { resolver, identityWaitMsMax: waitMsMax } = options
    const onFault = (did: Did, error: IdentityError): void => this.#onIdentityFault(did, error)
    this.#identities = new Identities({ resolver, waitMsMax, onFault })
    this.#lanes = new Lanes({
      start: (event, account) => this.#start(event, account),
      onFull: (event, account) =>
        this.#leaveOut(event, account, 'too much waits for the identity of the account'),
      onManyWaiting: options.onManyWaiting,
      onCrowded: ({ source }, account) => this.#breaks.begin(account, source),
      onUnblocked: (account) => this.#breaks.end(account),
      onEmpty: (account) => this.forget(account),
    })
    this.#breaks = new SourceBreaks(options.onBreak)
    this.#writer = new LogWriter(options.log, options.trail, options.onDurable)
    this.#incomplete = new IncompleteAccounts(options, (account) => this.announce(account))
    this.#pool = new VerifyPool({
      workers: options.workers,
      onVerdict: (event, account, verdict, frame) => this.#onVerdict(event, account, verdict, frame),
    })
    options.log.onDurable(() => this.#checkPressure())
    options.trail.onWritten(() => this.#checkPressure())
  }

  /** What waits for something outside before it can start or finish. */
  get waiting(): ReturnType<Lanes['depth']> & { bytes: number } {
    return { ...this.#lanes.depth(), bytes: this.#lanes.waitingBytes }
  }

  /** Milliseconds that verifying threads have worked, all together. */
  get verifyBusyMs(): number {
    return this.#pool.busyMs
  }

  /** Told when sources have to be paused, and when they may be read again. */
  onPressure(listener: (isPressed: boolean) => void): void {
    this.#onPressure = listener
  }

  /** A verifying thread died: the service stops. */
  onError(listener: (error: Error) => void): void {
    this.#pool.onError(listener)
  }

  /** Ends verification. What is under way is not done: it is read again from its source after the next start. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#identities.close()
    this.#lanes.close()
    await this.#pool.close()
  }

  /**
   * Takes one message of a source. The bytes may be used again by the caller when this returns.
   * @param size of the message, in bytes.
   * @param lastSeq the newest seq that came on the same connection; 0 on the first message.
   * @returns the seq of the message, or `lastSeq` when it has none that counts.
   */
  receive(source: Source, message: Message | UnreadableMessage, size: number, lastSeq: number): number {
    const { onReceived, onRefused } = this.#options
    if (!message.ok) {
      const { type = '', reason, detail } = message
      onReceived(source, type, size)
      onRefused(source, reason, detail, { type })
      return lastSeq
    }
    const type = typeOf(message)
    onReceived(source, type, size)
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
    const event = newEvent(source, message)
    source.begin(event)
    if (source.pending > heldUp.events) this.#leaveOutOldest(source, event.receivedAtMs)
    if (source.isLogged(upstreamSeq)) event.loggedAs = 0
    else if (isPlain(event) && size > plainBytesMax)
      this.#refuse(event, undefined, 'oversize', `a message of type ${type} with ${size} bytes`)
    else if (!isPlcOrWeb(did))
      this.#refuse(event, undefined, 'malformed-event', 'the account is not a did:plc or did:web')
    else this.#lanes.enter(event, this.#options.accounts.take(did))
    this.#checkPressure()
    return upstreamSeq
  }

  /** Takes a `#sync` that the relay made of what the account's host gave it. It is checked like any other. */
  receiveOwn(source: Source, account: Account, frame: Uint8Array): void {
    const message = readMessage(frame)
    if (message.ok && message.kind === 'sync') this.#lanes.enter(newEvent(source, message, 0), account)
  }

  /** Logs an `#account` of our own, after something other than an event has changed the account. */
  announce(account: Account): void {
    const plain = ownAccountMessage(account, Date.now())
    const origin = { kind: accountKind(account), source: account.sourceId, epoch: 0, upstreamSeq: 0 }
    this.#writer.append(origin, account, plain)
    this.#options.onStatus(account)
  }

  /** Notes what a host says of an account. What is missed while it is away cannot be told. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    if (upstreamStatus !== account.upstreamStatus && upstreamStatus !== 'active')
      account.isDesynchronized = true
    if (upstreamStatus !== 'active') account.activeNote = undefined
    if (upstreamStatus === 'deleted') forgetCollections(account)
    this.#options.accounts.assign(account, sourceId, upstreamStatus)
  }

  /** Forgets an account of which nothing has passed, for hosts may name as many as they like. */
  forget(account: Account): void {
    const { sourceId, isIncomplete, localStatus } = account
    if (sourceId !== 0 || isIncomplete || localStatus !== undefined) return
    if (this.#lanes.isEmpty(account)) this.#options.accounts.forget(account)
  }

  /** Starts or finishes the head of a lane. False when it has to wait; whatever it waits for wakes the lane. */
  #start(event: UpstreamEvent, account: Account): boolean {
    if (account.returned.length > 0 || account.isBlocked) return false
    // Plain events are handled here, so those before them must be back from the threads first.
    if (isPlain(event) && account.inFlight > 0) return false
    const identity = this.#identities.of(event, account.did)
    const isCurrent = identity !== undefined && identity.fetchedAt >= event.receivedAtMs
    if (!identity || (event.needsFreshKey && !isCurrent)) {
      this.#lanes.block(account, this.#readIdentity(event, account))
      return false
    }
    if (event.source.policy.kind === 'relay') return this.#startForwarded(event, account, identity)
    const isOwnHost = identity.pdsHost === event.source.host
    if (isBehindOthers(event, account) || (!isOwnHost && !isCurrent)) this.#standAside(event, account)
    else if (isOwnHost) this.#handle(event, account, identity)
    else if (event.message.kind === 'identity' && account.sourceId !== 0)
      this.#handleIdentity(event, event.message, account)
    else this.#refuse(event, account, 'wrong-host', 'the DID document of the account names another host')
    return true
  }

  /** From another relay: what is known of the PDS itself wins over it, and its word on an account needs that of the PDS. */
  #startForwarded(event: UpstreamEvent, account: Account, identity: Identity): boolean {
    const reason = this.#options.refusalOfForwarded(identity.pdsHost ?? '')
    if (reason) {
      this.#refuse(event, account, reason, 'the host of the account is read directly, or banned here')
      return true
    }
    if (event.message.kind === 'account' && event.confirmedStatus === undefined) {
      if (statusOf(event.message) !== account.upstreamStatus) {
        this.#lanes.block(account, this.#confirm(event, account))
        return false
      }
    }
    this.#handle(event, account, identity)
    return true
  }

  /** An event of a source that may speak for the account. */
  #handle(event: UpstreamEvent, account: Account, identity: Identity): void {
    this.#incomplete.noteSpeaker(account, event.source)
    const { message } = event
    if (message.kind === 'identity') return this.#handleIdentity(event, message, account, identity)
    if (message.kind === 'account') return this.#handleAccount(event, message, account)
    if (!this.#hasPlace(event, account, true)) return
    const excluded = account.sourceId === event.source.id ? exclusionOf(account) : undefined
    if (excluded) return this.#refuse(event, account, excluded, 'the account is left out here')
    if (!identity.signingKey)
      return this.#refuse(event, account, 'missing-key', 'the DID document has no signing key')
    account.inFlight++
    this.#pool.add(event, account, identity.signingKey, this.#isStrict(event.source))
  }

  /** Refuses an event of an account that its source may not bring in any more. */
  #hasPlace(event: UpstreamEvent, account: Account, isActive: boolean): boolean {
    if (account.sourceId !== 0 || this.#options.accounts.hasPlaceFor(event.source.id, isActive)) return true
    this.#refuse(event, account, 'over-quota', 'its host has no slot for it, and many accounts without one')
    return false
  }

  #isStrict({ policy }: Source): boolean {
    return policy.validation === undefined ? this.#options.strict : policy.validation === 'strict'
  }

  /** Reads the identity for the head of a lane. */
  async #readIdentity(event: UpstreamEvent, account: Account): Promise<void> {
    const outcome = await this.#identities.read(event, account.did, event.needsFreshKey)
    if (outcome === 'ready' || this.#isClosed) return
    if (this.#lanes.drop(event, account)) this.#refuseUnread(event, account, outcome)
  }

  #refuseUnread(event: UpstreamEvent, account: Account, outcome: Exclude<IdentityOutcome, 'ready'>): void {
    if (outcome === 'identity-unavailable') this.#leaveOut(event, account, unreadable)
    else this.#refuse(event, account, outcome, unreadable)
  }

  /** A document that cannot be had may stay so for long; one that was not asked for yet comes soon. */
  #onIdentityFault(did: Did, error: IdentityError): void {
    if (!error.isOwnLimit) this.#lanes.discount(this.#options.accounts.take(did))
    this.#options.onIdentityFault(did, error)
  }

  /** Asks the account's own host for what another relay says of the account. */
  async #confirm(event: UpstreamEvent, account: Account): Promise<void> {
    event.confirmedStatus =
      (await this.#options.inquiry.status(account.did, { cause: event.source.host })) ?? 'unknown'
  }

  /** Another host than the document's: its events wait beside the lane until the document has been read again. */
  #standAside(event: UpstreamEvent, account: Account): void {
    if (!this.#lanes.hasRoom(account.aside.length, event, account)) {
      const detail = 'too much of other hosts waits for the DID document of the account'
      this.#refuse(event, account, 'wrong-host', detail)
      return
    }
    account.aside.push(event)
    this.#lanes.hold(event, account, event.message.bytes)
    if (account.aside.length === 1) void this.#readAside(account)
  }

  async #readAside(account: Account): Promise<void> {
    for (let head = account.aside[0]; head; head = account.aside[0]) {
      const identity = this.#identities.peek(account.did)
      const isSettled =
        identity && (identity.pdsHost === head.source.host || identity.fetchedAt >= head.receivedAtMs)
      const outcome = isSettled ? 'ready' : await this.#identities.read(head, account.did, true)
      if (this.#isClosed) return
      if (!this.#lanes.drop(head, account)) continue
      if (outcome === 'ready') this.#lanes.enterAgain(head, account)
      else this.#refuseAside(head, account, outcome, unreadable)
    }
  }

  /**
   * Passes for its hint that the identity changed, from whichever host.
   * @param identity of an account that the source may speak for: then a handle that the document declares is kept.
   */
  #handleIdentity(
    event: UpstreamEvent,
    message: IdentityMessage,
    account: Account,
    identity?: Identity,
  ): void {
    const read = identityToPassOn(message, identity?.handle)
    const isOwn = identity !== undefined
    const refusal = this.#identityGate.refusalOf(account.did, read, event.receivedAtMs, isOwn)
    if (refusal) return this.#refuse(event, account, refusal.reason, refusal.detail)
    this.#append(event, account, read, recordKinds.identity)
    this.forget(account)
  }

  #handleAccount(event: UpstreamEvent, message: AccountMessage, account: Account): void {
    const upstreamStatus = statusOf(message)
    if (event.confirmedStatus !== undefined && event.confirmedStatus !== upstreamStatus) {
      const detail = `said to be ${upstreamStatus}, by its host ${event.confirmedStatus}`
      // When its host answers it says what the account is, or gives its current commit.
      if (event.confirmedStatus === 'unknown')
        return this.#leaveOut(event, account, detail, 'unconfirmed-status')
      return this.#refuse(event, account, 'unconfirmed-status', detail)
    }
    if (!this.#hasPlace(event, account, upstreamStatus === 'active')) return
    const wasThrottled = account.throttledAtMs > 0
    this.assign(account, event.source.id, upstreamStatus)
    if (wasThrottled && account.throttledAtMs === 0) this.#incomplete.mark(account, event.source)
    account.activeNote = activeNoteOf(message)
    this.#append(event, account, accountToPassOn(message, account), accountKind(account))
    this.#options.onStatus(account)
    if (upstreamStatus === 'active' && account.isIncomplete)
      this.#options.recovery.missing(account, { cause: event.source.host })
  }

  /** A verdict came back from a thread. Those of one DID come in the order in which they went. */
  #onVerdict(event: UpstreamEvent, account: Account, verdict: Verdict, frame: Buffer): void {
    account.inFlight--
    if (account.returned.length > 0 || mustTryAgain(event, account, verdict))
      this.#lanes.giveBack(event, account, frame)
    else if (verdict.ok) this.#admit(event, account, verdict, frame)
    else this.#refuse(event, account, verdict.reason, verdict.detail)
    if (account.inFlight === 0 && (account.returned.length > 0 || account.waiting.length > 0))
      this.#lanes.wake(account)
    this.#checkPressure()
  }

  /** The checks that need the account's state, at the moment of logging. */
  #admit(event: UpstreamEvent, account: Account, verified: Verified, frame: Buffer): void {
    const { source } = event
    const detail = () => `rev ${verified.rev}, known ${account.rev ?? 'none'}`
    if (account.localStatus !== undefined) return this.#refuse(event, account, 'account-excluded', detail())
    if (forgetOldBreaks(account, event.receivedAtMs)) this.announce(account)
    const isStrict = this.#isStrict(source)
    const broken = chainRefusalOf(account, verified, isStrict)
    if (account.upstreamStatus !== 'active') {
      if (broken || !this.#mayAsk(account)) return this.#refuse(event, account, 'account-inactive', detail())
      this.#lanes.giveBack(event, account, frame)
      this.#lanes.block(account, this.#askHost(account, source))
      return
    }
    if (broken) return this.#refuse(event, account, broken, detail())
    if (!continues(account, verified) && verified.kind === 'commit') {
      if (!noteBreak(account, event.receivedAtMs)) {
        this.#incomplete.holdBack(account, source)
        return this.#refuse(event, account, 'too-many-breaks', detail(), this.#incomplete.storedBy)
      }
      account.isDesynchronized = true
      this.#options.onDiscontinuity(source)
    }
    const wasThrottled = account.throttledAtMs > 0
    this.#options.accounts.assign(account, source.id, account.upstreamStatus)
    if (account.throttledAtMs > 0) {
      // Its exclusion is made known and durable once, for its events leave no trace.
      if (!wasThrottled) this.announce(account)
      const { storedBy } = this.#incomplete
      return this.#refuse(event, account, 'over-quota', 'its host has no slot for it', storedBy)
    }
    if (wasThrottled) {
      // It has moved to where there is room, and what it wrote before was left out.
      this.#incomplete.mark(account, source)
      this.announce(account)
    }
    if (verified.waived) for (const reason of verified.waived) this.#options.onWaived(source, reason)
    if (verified.kind === 'commit' && !verified.prevData && account.rev && !isStrict)
      this.#options.onWaived(source, 'missing-prev-data')
    if (verified.kind === 'sync') {
      account.isDesynchronized = false
      account.isIncomplete = false
    }
    account.rev = verified.rev
    account.commit = verified.commit
    account.data = verified.data
    const { seqStart, seqEnd } = event.message
    const newCollections = noteCollections(account, verified.collections)
    this.#append(
      event,
      account,
      { bytes: frame, seqStart, seqEnd },
      recordKinds[event.message.kind],
      newCollections,
    )
  }

  #mayAsk(account: Account): boolean {
    const sinceMs = Date.now() - account.askedAtMs
    return sinceMs > askAgainMs * (0.8 + Number(account.logId % 400n) / 1000)
  }

  /** An event of an account says that it is not away any more: whether that is so is for its host to say. */
  async #askHost(account: Account, source: Source): Promise<void> {
    account.askedAtMs = Date.now()
    const status = await this.#options.inquiry.status(account.did, { cause: source.host })
    if (status !== 'active' || this.#isClosed) return
    this.assign(account, source.id, status)
    this.announce(account)
  }

  #append(
    event: UpstreamEvent,
    account: Account,
    plain: LogMessage,
    kind = 0,
    newCollections?: readonly string[],
  ): void {
    const { source, epoch, upstreamSeq } = event
    const origin = { kind, source: source.id, epoch, upstreamSeq }
    finish(event, this.#writer.append(origin, account, plain, newCollections))
  }

  /** The source's cursor cannot pass an event that waits, and all that is done behind it has to be remembered. */
  #leaveOutOldest({ oldest }: Source, nowMs: number): void {
    if (!oldest || oldest.loggedAs !== undefined || nowMs - oldest.receivedAtMs < heldUp.waitMs) return
    const account = this.#options.accounts.get(oldest.message.did)
    if (!account) return
    const stoodAside = account.aside[0] === oldest
    if (!this.#lanes.drop(oldest, account)) return
    const detail = 'too much came behind it while it waited'
    if (stoodAside) this.#refuseAside(oldest, account, 'identity-unavailable', detail)
    else this.#leaveOut(oldest, account, detail)
  }

  /** Refuses an event of a host that the account's document does not name, as far as it could be read. */
  #refuseAside(event: UpstreamEvent, account: Account, reason: RelayRefusal, detail: string): void {
    account.missedSourceId = event.source.id
    this.#refuse(event, account, reason, detail)
  }

  /** Refuses an event for no fault of its own: what the account misses by that has to be made up for. */
  #leaveOut(
    event: UpstreamEvent,
    account: Account,
    detail: string,
    reason: RelayRefusal = 'identity-unavailable',
  ): void {
    this.#incomplete.mark(account, event.source)
    this.#refuse(event, account, reason, detail, this.#incomplete.storedBy)
  }

  /** @param doneBy as in `UpstreamEvent`: for what is not to be forgotten when the cursor has passed the event. */
  #refuse(
    event: UpstreamEvent,
    account: Account | undefined,
    reason: RelayRefusal,
    detail: string,
    doneBy = 0,
  ): void {
    const { source, upstreamSeq, message } = event
    const type = typeOf(message)
    if (upstreamSeq > 0)
      this.#options.onRefused(source, reason, detail, { did: account?.did, upstreamSeq, type })
    finish(event, 0, doneBy)
    if (account?.sourceId === 0) this.forget(account)
  }

  #checkPressure(): void {
    const { log, trail } = this.#options
    const bytes = this.#pool.pendingBytes + log.pendingBytes
    const isHigh = trail.isFull || bytes >= (this.#isPressed ? pressure.low : pressure.high)
    if (isHigh === this.#isPressed) return
    this.#isPressed = !this.#isPressed
    this.#onPressure(this.#isPressed)
  }
}

/** Whether events of the same source stand aside that came before. */
function isBehindOthers(event: UpstreamEvent, { aside }: Account): boolean {
  return aside.some((other) => isBefore(other, event))
}

/** Events that say something of an account and hold no blocks. */
function isPlain({ message: { kind } }: UpstreamEvent): boolean {
  return kind === 'identity' || kind === 'account'
}

function isAccountBound(message: Message): message is AccountBound {
  return message.kind in recordKinds
}

/** What the header of a message says, within bounds. */
function typeOf(message: Message): string {
  return message.kind === 'unknown' ? (message.t ?? '').slice(0, 32) : `#${message.kind}`
}

/** A signature is refused only against a key that was fetched after the event came in. */
function mustTryAgain(event: UpstreamEvent, account: Account, verdict: Verdict): boolean {
  if (verdict.ok) return false
  if (verdict.reason === 'missing-key') {
    account.sentKey = undefined
    return true
  }
  if (verdict.reason !== 'bad-signature' || event.needsFreshKey) return false
  event.needsFreshKey = true
  return true
}
