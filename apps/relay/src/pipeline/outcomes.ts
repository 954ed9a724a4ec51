/**
 * How the way of an event ends: it is logged, or refused for a reason, and what its account misses by that is made up
 * for. What changes an account without an event ends here too.
 *
 * Always holds: an event is done only when it was logged, refused or ignored. The source's cursor passes an event only after
 * everything that must be remembered of it is durable.
 */
import type { EventLog } from '@tributary/event-log'
import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { AccountMessage, IdentityMessage } from '@tributary/repo-verify'
import type { Clock } from '../clock.ts'
import type { RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import { finish, type UpstreamEvent } from '../sources/upstream-event.ts'
import type { AccountTable } from '../state/account-table.ts'
import { activeNoteOf, statusOf, type Account } from '../state/account.ts'
import type { StateTrail } from '../state/state-trail.ts'
import type { Verified } from '../verify/verified.ts'
import { heldBackUntilMs, noteBreak } from './breaks.ts'
import { hasFallenSilent, hasLeft, isMove, isPlain, revsOf, type Refuse } from './decide.ts'
import { IdentityGate } from './identity-gate.ts'
import { KnownCollections } from './known-collections.ts'
import { LogWriter } from './log-writer.ts'
import type { PipelineObserver } from './pipeline-observer.ts'
import { accountToPassOn, identityToPassOn, ownAccountMessage, type LogMessage } from './plain-events.ts'
import { accountKind, partialSyncKind, recordKinds } from './record-kinds.ts'

/** Makes up for what accounts miss. */
export interface Recovery {
  /**
   * Fetches the current commit of an account and puts it through the pipeline.
   * @param missing.cause host of the source whose message was left out.
   * @param missing.notBeforeMs in milliseconds since 1970. Default: as soon as it is its turn.
   * @param missing.place of the event that was left out. Default: of the newest event.
   * @returns whether the account waits for that now.
   */
  missing(
    account: Account,
    missing: { cause: string; notBeforeMs?: number; place?: number | undefined },
  ): boolean
  /**
   * Called when a `#sync` of an account is logged: its host sent it, or gave its commit when we asked.
   * @returns whether an event of the account was left out that came later, or after we asked. The host is asked again then.
   */
  missesMore(account: Account, sync: { place: number; isOwn: boolean }): boolean
  /**
   * A source that does not seem to be the account's wrote for it. The DID document is read again to find out whether it is.
   * @param isLong whether the directory may be wrong for longer than a minute.
   */
  lookAgainAt(account: Account, source: Source, hasWritten: boolean, isLong?: boolean): void
  /** An event says how an account is. */
  heard(account: Account): void
}

export interface OutcomeOptions {
  log: EventLog
  accounts: AccountTable
  resolver: IdentityResolver
  trail: StateTrail
  /** Whether sources without a rule of their own are held to Sync 1.1. */
  strict: boolean
  /** Whether events that another host wrote for the account were left out. Clears that note. */
  takeUnheard: (did: Did) => boolean
  /** Relays that forwarded something of an account lately, though another source speaks for it. */
  forwardersOf: (did: Did) => readonly Source[]
  /** The source that spoke for an account last. */
  speakerOf: (account: Account) => Source | undefined
  recovery: Recovery
  observer: PipelineObserver
}

export class Outcomes {
  readonly #options: OutcomeOptions
  readonly #observer: PipelineObserver
  readonly #accounts: AccountTable
  readonly #clock: Clock
  readonly #identityGate = new IdentityGate()
  readonly #collections = new KnownCollections()
  readonly #writer: LogWriter

  constructor(options: OutcomeOptions, clock: Clock) {
    const { accounts, log, observer, trail } = options
    this.#options = options
    this.#observer = observer
    this.#accounts = accounts
    this.#clock = clock
    this.#writer = new LogWriter(log, trail, observer.onDurable)
  }

  /** Logs an `#account` of our own, after something other than an event has changed the account. */
  announce(account: Account): void {
    const origin = { kind: accountKind(account), source: account.sourceId, epoch: 0, upstreamSeq: 0 }
    this.#writer.append(origin, account, ownAccountMessage(account, this.#clock.nowMs()))
    this.#observer.onStatus(account)
  }

  /** Notes what a host says of an account. One that becomes inactive may miss events from then on. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    if (upstreamStatus !== account.upstreamStatus && upstreamStatus !== 'active')
      account.isDesynchronized = true
    if (upstreamStatus !== 'active') account.activeNote = undefined
    if (upstreamStatus === 'deleted') this.#collections.forget(account)
    this.#accounts.assign(account, sourceId, upstreamStatus)
  }

  /** A document was read: if it names another host than the account's source, the account holds no slot there any more. */
  noteHost(account: Account): void {
    if (hasLeft(this.#options.speakerOf(account), this.hostOf(account))) this.#depart(account)
  }

  /** Forgets an account of which nothing has passed, because hosts may name as many as they like. */
  forget(account: Account | undefined): void {
    if (!account || account.underWay > 0) return
    const { sourceId, isIncomplete, localStatus } = account
    if (sourceId !== 0 || isIncomplete || localStatus !== undefined) return
    this.#options.trail.forget(account)
    this.#accounts.forget(account)
  }

  /** Passes an `#identity` on for its hint. A handle that the document does not declare is left out. */
  passIdentity(event: UpstreamEvent, message: IdentityMessage, identity: Identity | undefined): void {
    const { account, source, receipt } = event
    const plain = identityToPassOn(message, identity?.handle)
    const refusal = this.#identityGate.refusalOf(account.did, plain, receipt.receivedAtMs, source)
    if (refusal) this.refuse(event, refusal.reason, refusal.detail)
    else this.#append(event, plain, recordKinds.identity)
  }

  /** Passes an `#account` on, with the status that consumers get. What the account may miss is made up for. */
  passAccount(event: UpstreamEvent, message: AccountMessage, account: Account): void {
    const { source } = event
    const upstreamStatus = statusOf(message)
    const wasThrottled = account.throttledAtMs > 0
    const isUnheard = source.unheard.delete(account.did)
    const hasMoved = isMove(this.#options.speakerOf(account), source)
    this.assign(account, source.id, upstreamStatus)
    this.#options.recovery.heard(account)
    account.activeNote = activeNoteOf(message)
    // The directory may have said something old, and the account's own host may say nothing more.
    if (hasMoved) this.#options.recovery.lookAgainAt(account, source, false, true)
    // An event that a relay forwarded before may have been from the host that the account has moved to.
    const forwarders = upstreamStatus === 'active' ? [] : this.#options.forwardersOf(account.did)
    for (const relay of forwarders) this.#options.recovery.lookAgainAt(account, relay, false, true)
    this.#append(event, accountToPassOn(message, account), accountKind(account))
    // Mark after the append, because the mark is stored with that record. Earlier, the new status would be stored with an
    // older record.
    if (isUnheard || hasMoved || (wasThrottled && account.throttledAtMs === 0))
      this.markMissing(account, source, event.receipt.place)
    this.#observer.onStatus(account)
    if (upstreamStatus === 'active' && account.isIncomplete)
      this.#options.recovery.missing(account, { cause: source.host, place: event.receipt.place })
  }

  /** Logs a commit or sync, if the account has a slot and its chain does not break too often. */
  log(event: UpstreamEvent, verified: Verified, bytes: Buffer, breaksChain: boolean): void {
    const { source, account, message, receipt } = event
    if (breaksChain && !noteBreak(account, receipt.receivedAtMs)) {
      this.#holdBack(event)
      return this.refuse(event, 'too-many-breaks', revsOf(account, verified), this.#storedBy)
    }
    const { hasDeparted } = account
    const wasThrottled = account.throttledAtMs > 0
    // What it wrote while it had no slot, or while it moved, may have been left out.
    const hasMoved = account.sourceId !== 0 && account.sourceId !== source.id
    const isUnheard = source.unheard.delete(account.did)
    const isGap = breaksChain && (this.#options.takeUnheard(account.did) || hasMoved)
    this.#accounts.assign(account, source.id, account.upstreamStatus)
    if (account.throttledAtMs > 0) {
      // Log the exclusion once. Later events of the account are refused and leave no other durable trace.
      if (!wasThrottled) this.announce(account)
      else if (hasDeparted) this.#store(account)
      return this.refuse(event, 'over-quota', 'its host has no slot for it', this.#storedBy)
    }
    if (wasThrottled || isUnheard || isGap) this.markMissing(account, source, receipt.place)
    if (wasThrottled) this.announce(account)
    this.#noteWaived(event, verified)
    if (breaksChain) {
      account.isDesynchronized = true
      this.#observer.onDiscontinuity(source)
    }
    const isPartial = verified.kind === 'sync' && this.#isPartial(event)
    if (verified.kind === 'sync') account.isDesynchronized = account.isIncomplete = isPartial
    const isKnown = receipt.upstreamSeq === 0 && verified.commit === account.commit && !hasMoved
    if (isKnown && this.#writer.endsInSync(account)) {
      // Consumers have this commit as the newest. Only the relay did not know whether something was left out after it.
      this.#store(account)
      return this.finish(event, 0)
    }
    account.rev = verified.rev
    account.commit = verified.commit
    account.data = verified.data
    const { seqStart, seqEnd } = message
    const newCollections = this.#collections.note(account, verified.collections)
    const kind = isPartial ? partialSyncKind : recordKinds[message.kind]
    this.#append(event, { bytes, seqStart, seqEnd }, kind, newCollections)
  }

  /**
   * Whether an account misses something after its `#sync` that was left out. The `#sync` may have waited longer here than
   * what was left out, also over a restart.
   */
  #isPartial({ source, account, receipt }: UpstreamEvent): boolean {
    const { upstreamSeq, place } = receipt
    const isOwn = upstreamSeq === 0
    if (!isOwn && account.isIncomplete && source.wasOvertaken(upstreamSeq)) return true
    return this.#options.recovery.missesMore(account, { place, isOwn })
  }

  #noteWaived({ source, account }: UpstreamEvent, { kind, prevData, waived = [] }: Verified): void {
    for (const reason of waived) this.#observer.onWaived(source, reason)
    const hasNoChain = kind === 'commit' && !prevData && account.rev !== undefined
    if (hasNoChain && !this.isStrict(source)) this.#observer.onWaived(source, 'missing-prev-data')
  }

  /** Whether a source is held to Sync 1.1. */
  isStrict({ policy }: Source): boolean {
    return policy.validation === undefined ? this.#options.strict : policy.validation === 'strict'
  }

  #append(event: UpstreamEvent, message: LogMessage, kind: number, newCollections?: readonly string[]): void {
    const { source, account, receipt } = event
    const { epoch, upstreamSeq } = receipt
    const origin = { kind, source: source.id, epoch, upstreamSeq }
    this.finish(event, this.#writer.append(origin, account, message, newCollections))
  }

  /** A mark made now is stored with the record of this seq of our log, or before it. */
  get #storedBy(): number {
    return this.#options.trail.newestSeq
  }

  /**
   * Marks an account of which something was left out, so that its current commit is fetched.
   * @param place of the event that was left out. Default: of the newest event.
   */
  markMissing(account: Account, { id, host: cause, policy }: Source, place?: number): void {
    const isHeardNoMore = hasFallenSilent(this.#options.speakerOf(account), this.hostOf(account))
    if (policy.kind === 'relay' && (account.sourceId === 0 || isHeardNoMore)) account.namedBy = id
    const isAskedFor = this.#options.recovery.missing(account, { cause, place })
    // An account that nobody has spoken for is kept only as long as it is asked for.
    if (!isAskedFor && account.sourceId === 0) return
    account.isDesynchronized = account.isIncomplete = true
    this.#store(account)
  }

  /** Leaves out commits that break the chain until the window is over. Consumers are told once. */
  #holdBack({ account, source, receipt }: UpstreamEvent): void {
    const { breaks, isIncomplete } = account
    if (!breaks || (breaks.areTooMany && isIncomplete)) return
    account.isDesynchronized = account.isIncomplete = true
    if (breaks.areTooMany) this.#store(account)
    else {
      breaks.areTooMany = true
      this.announce(account)
    }
    const notBeforeMs = heldBackUntilMs(account, receipt.receivedAtMs)
    this.#options.recovery.missing(account, { cause: source.host, notBeforeMs, place: receipt.place })
  }

  #depart(account: Account): void {
    if (this.#accounts.depart(account)) this.#store(account)
  }

  #store(account: Account): void {
    this.#options.trail.push(this.#storedBy, account)
  }

  /** Refuses an event for no fault of its own. What the account misses by that is made up for. */
  leaveOut(event: UpstreamEvent, detail: string, reason: RelayRefusal = 'identity-unavailable'): void {
    this.refuseFor(event, { to: 'refuse', reason, detail, isMissed: true })
  }

  refuseFor(event: UpstreamEvent, { reason, detail, isMissed }: Refuse): 'done' {
    const isUnheard = reason === 'wrong-host' || (isMissed && this.#isStranger(event))
    if (isByLeaver(event, reason)) this.#depart(event.account)
    if (isUnheard) this.#noteUnheard(event)
    else if (isMissed) this.markMissing(event.account, event.source, event.receipt.place)
    else if (reason === 'unconfirmed-status') this.#lookForForwarded(event)
    else if (reason === 'direct-source') this.#noteForwarded(event)
    this.refuse(event, reason, detail, isUnheard || isMissed ? this.#storedBy : 0)
    return 'done'
  }

  /**
   * Looks again at the DID document of an account that a relay brings. The directory may name another host for a moment
   * only, so that an event of the relay was refused.
   */
  #lookForForwarded({ account, source, message }: UpstreamEvent): void {
    if (account.sourceId !== source.id) return
    this.#options.recovery.lookAgainAt(account, source, !isPlain(message), true)
  }

  /**
   * A relay forwards an account whose host seems to be read here. If the account is inactive at that host, it may have moved
   * to a host that is not read here.
   */
  #noteForwarded(event: UpstreamEvent): void {
    const { account, source, message } = event
    const { did, sourceId, upstreamStatus } = account
    if (sourceId === source.id) return this.#lookForForwarded(event)
    if (sourceId !== 0 && upstreamStatus !== 'active')
      return this.#options.recovery.lookAgainAt(account, source, !isPlain(message), true)
    source.forwarded.add(did)
  }

  /** Whether an event comes from another host than the account's, as far as is known. */
  #isStranger({ account, source }: UpstreamEvent): boolean {
    const isSpeaker = account.sourceId === 0 || account.sourceId === source.id
    return !isSpeaker && this.hostOf(account) !== source.host
  }

  /**
   * A host that is not the account's must not mark the account. But it may turn out to be the account's host, or may have
   * been it for a while. Then the account misses its commits. So the account is marked where its chain is broken, and where
   * it has moved on to a host that has said nothing yet. Recovery finds out about all others.
   */
  #noteUnheard({ account, source, message, receipt }: UpstreamEvent): void {
    source.unheard.add(account.did)
    const { recovery, speakerOf } = this.#options
    const { isDesynchronized, isIncomplete, upstreamStatus } = account
    const hasGap = isDesynchronized && !isIncomplete && upstreamStatus === 'active'
    const hasEnded = source.policy.kind === 'relay' ? hasFallenSilent : hasLeft
    const isElsewhere = hasEnded(speakerOf(account), this.hostOf(account))
    if (isElsewhere || (hasGap && !isPlain(message))) this.markMissing(account, source, receipt.place)
    recovery.lookAgainAt(account, source, !isPlain(message))
  }

  /** The host that the account's document names, as far as is known now. */
  hostOf({ did }: Account): string | undefined {
    return this.#options.resolver.peek(did)?.pdsHost
  }

  /** Refuses an event. @param doneBy as in `Receipt`: for what must not be forgotten when the cursor has passed it. */
  refuse(event: UpstreamEvent, reason: RelayRefusal, detail: string, doneBy = 0): void {
    const { source, account, message, receipt } = event
    const { upstreamSeq } = receipt
    if (upstreamSeq > 0)
      this.#observer.onRefused(source, reason, detail, {
        did: account.did,
        upstreamSeq,
        type: `#${message.kind}`,
      })
    this.finish(event, 0, doneBy)
  }

  /** Ends an event that was logged, refused or ignored. @param loggedAs, doneBy as in `Receipt`. */
  finish(event: UpstreamEvent, loggedAs: number, doneBy?: number): void {
    finish(event, loggedAs, doneBy)
    this.forget(event.account)
  }
}

/**
 * Whether a refused event of the source that spoke for an account last shows that the account is not there any more: its
 * document names another host, or cannot be read while the source itself says that the account is not active.
 */
function isByLeaver({ account, source, message }: UpstreamEvent, reason: RelayRefusal): boolean {
  if (account.sourceId !== source.id) return false
  if (reason === 'wrong-host') return true
  const isUnread = reason === 'identity-not-found' || reason === 'identity-unavailable'
  return isUnread && message.kind === 'account' && !message.active
}
