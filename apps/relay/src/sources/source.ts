/**
 * One approved PDS: who it is, how far we have read, and what happens on its connection.
 * The cursor is the end of the contiguous prefix of events that are done: refused, or durable in our log.
 */
import type { Lane, LaneSource } from '@tributary/lanes'
import { RecentSet } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { SlidingWindow } from '@tributary/rates'
import type { PolicySource, SourcePolicy } from '../policy/source-policy.ts'
import { Reading } from './reading.ts'
import { conditionOf, type Condition, type SourceState } from './source-state.ts'
import { UnderWay } from './under-way.ts'
import type { Receipt, UpstreamEvent } from './upstream-event.ts'

/** Where a source starts that is to be read from now on: it is dialled without a position. */
export const livePosition = -1

const unheardMax = 2000
const forwardedMax = 4000

export interface StoredSource {
  id: number
  /** Host name, with a port where it is a private one. */
  host: string
  /** `wss://…` or `ws://…`, without a path. */
  url: string
  /** Seq of the source up to which everything is done; 0 before the first, `livePosition` before the first live one. */
  cursor: number
  /** Counts the times that the source's numbering began again. */
  epoch: number
  /** When the last epoch began, in milliseconds since 1970; 0 for the first. */
  epochAtMs: number
  /** Events above the cursor that are done. */
  ahead: number[]
  /** For accounts with events above the cursor that only the log told of at the last start: the newest of these. */
  newestLogged: [did: Did, upstreamSeq: number][]
  /** @see Source.looks */
  looks: [did: Did, isContent: boolean][]
  /** @see Source.lostAtMs */
  lostAtMs: number
  /** Revision of the policy that held when this was stored. 0: none. */
  revision: number
  /** Since the loss, accounts were looked after whose DIDs come before this. Empty when none were. */
  walkFrom: string
  /** Everything that it sent until then was known when this was stored, in milliseconds since 1970. 0: none was read. */
  caughtUpAtMs: number
}

export class Source implements LaneSource<Source, UpstreamEvent> {
  readonly id: number
  readonly host: string
  readonly url: string
  policy: SourcePolicy
  /** Revision of the policy. */
  revision: number
  /** The policy was changed after the state was stored last, so that what follows from the change may be lost. */
  readonly isPolicyNewer: boolean
  readonly addedAtMs: number
  /** The banned domain that it is under. */
  bannedDomain: string | undefined
  /** How the last connection ended, and when. */
  lastError: string | undefined
  lastErrorAtMs = 0
  /** When the last connection ended on which messages could come, in milliseconds since 1970; 0 if none has. */
  lastDisconnectedAtMs = 0
  lastConnectedAtMs = 0
  lastEventAtMs = 0
  cursor: number
  epoch: number
  epochAtMs: number
  eventsReceived = 0
  bytesReceived = 0
  /** Up to where an operator left out, in this epoch, what could not be read. 0 when none did. */
  movedOnTo = 0
  /** Events that passed and are durable, since the start. */
  eventsLogged = 0
  eventsRefused = 0
  /** Refused events whose signature is not by the key of their account. */
  signatureFailures = 0
  /** Messages received within the last minute. */
  readonly lastMinute: SlidingWindow
  /** Rules of strict validation that it was let off, since the start. */
  rulesWaived = 0
  /** Times that the source left out numbers, since the start, also between two connections. That is legal. */
  gaps = 0
  /** Times that the source no longer had what came after our position, since the start: events were lost. */
  losses = 0
  /**
   * When events of it were last lost, or may have been, in milliseconds since 1970. 0 when all its accounts were looked after
   * since. Stored with the cursor, which passes what was lost.
   */
  lostAtMs: number
  /** Lanes of its accounts of which something waits, or is with a verifying thread. */
  readonly lanes: Map<Did, Lane<Source, UpstreamEvent>> = new Map()
  readonly largeLanes: Set<Lane<Source, UpstreamEvent>> = new Set()
  /** Its lanes that wait for something which should come soon, most often for a DID document. */
  waitingLanes = 0
  crowdedBy: Lane<Source, UpstreamEvent> | undefined
  crowdedAtMs = 0
  /**
   * Accounts that it does not speak for, as far as was known, and of which events of it were left out. When it does speak
   * for one, that one may miss something.
   */
  readonly unheard: RecentSet<Did> = new RecentSet(unheardMax)
  /** Accounts that other sources speak for, as far as was known, and of which this relay forwarded something lately. */
  readonly forwarded: RecentSet<Did> = new RecentSet(forwardedMax)
  /**
   * Accounts whose documents are looked at again because an event of theirs was left out, and whether it was a commit or
   * sync. Stored with the cursor, which has passed the event.
   */
  readonly looks: Map<Did, boolean>
  /** Bytes of all its events that wait for something. */
  waitingBytes = 0
  /** How old events are when they come, in milliseconds, as most of its accounts say at the last looks. */
  eventAgeMs = 0
  readonly nowMs: () => number
  readonly reading: Reading
  /** Why it got nowhere, and what had been logged of it by then. */
  #stuck: { reason: string; eventsLogged: number } | undefined
  /** The loss that is over, and the seq of our log together with which that is stored. */
  #lossOver = { lostAtMs: 0, doneBy: 0 }
  /** How far the accounts were looked after since a loss. */
  #walk: { lostAtMs: number; from: string }
  /** How far by now, and the seq of our log together with which that is stored. */
  #walkBy: { lostAtMs: number; from: string; doneBy: number } | undefined
  readonly #underWay = new UnderWay()
  /** After a restart: events above the cursor that are done, so that they are not logged twice. */
  readonly #done: Set<number>
  /**
   * After a restart: the newest event above the cursor that the log has of an account. What came before it was done, but
   * the log does not tell of what was refused.
   */
  readonly #newestLogged: Map<Did, number>
  #hasNotedLogged = false
  readonly #wasReadBefore: boolean
  /** After a restart: the newest event that was done before it and that the cursor had not passed. 0 when there was none. */
  #doneUpTo: number

  constructor(
    stored: StoredSource,
    { policy, revision, addedAtMs }: PolicySource,
    nowMs: () => number = Date.now,
  ) {
    this.id = stored.id
    this.host = stored.host
    this.url = stored.url
    this.policy = policy
    this.revision = revision
    this.isPolicyNewer = revision > stored.revision
    this.addedAtMs = addedAtMs
    this.cursor = stored.cursor
    this.epoch = stored.epoch
    this.epochAtMs = stored.epochAtMs
    this.lostAtMs = stored.lostAtMs
    this.#walk = { lostAtMs: stored.lostAtMs, from: stored.walkFrom }
    this.#done = new Set(stored.ahead)
    this.#doneUpTo = stored.ahead.reduce((newest, seq) => Math.max(newest, seq), 0)
    this.#newestLogged = new Map(stored.newestLogged)
    this.looks = new Map(stored.looks)
    this.nowMs = nowMs
    this.lastMinute = new SlidingWindow(60_000, Infinity, nowMs)
    this.#wasReadBefore = stored.caughtUpAtMs > 0 || this.hasBegun
    this.reading = new Reading(this, nowMs, Math.max(addedAtMs, stored.caughtUpAtMs))
  }

  /** What it is doing at this moment, and why. */
  get condition(): Condition {
    const { bannedDomain, policy, reading, stuckReason } = this
    const { isOpen, awayMs, pauseReason, quietMs } = reading
    const { desired } = policy
    return conditionOf({ desired, bannedDomain, stuckReason, isOpen, awayMs, pauseReason, quietMs })
  }

  get state(): SourceState {
    return this.condition.state
  }

  /** Why it gets nowhere until something changes. Undefined when it does not, or when events pass again. */
  get stuckReason(): string | undefined {
    const hasProgress = this.reading.isOpen && this.eventsLogged > (this.#stuck?.eventsLogged ?? 0)
    return hasProgress ? undefined : this.#stuck?.reason
  }

  set stuckReason(reason: string | undefined) {
    this.#stuck = reason === undefined ? undefined : { reason, eventsLogged: this.eventsLogged }
  }

  /** Whether it is to be read: enabled, and not banned in any way. */
  get isWanted(): boolean {
    return this.policy.desired === 'enabled' && this.bannedDomain === undefined
  }

  /** Whether it brings accounts of many hosts. */
  get isShared(): boolean {
    return this.policy.kind === 'relay'
  }

  /** Whether nothing counts that it sends or has sent: an operator has banned it, or a domain above it. */
  get isBanned(): boolean {
    return this.policy.desired === 'banned' || this.bannedDomain !== undefined
  }

  /** The newest seq that was received in this epoch, done or not. */
  get receivedSeq(): number {
    const { newest } = this.#underWay
    return newest?.epoch === this.epoch ? Math.max(newest.upstreamSeq, this.cursor) : this.cursor
  }

  /** Whether events of this epoch were read, also before a restart, and when the cursor has not passed any of them. */
  get hasBegun(): boolean {
    return this.receivedSeq > 0 || this.#done.size > 0
  }

  /** Whether there was a connection to it, also before a restart. */
  get wasRead(): boolean {
    return this.#wasReadBefore || this.lastConnectedAtMs > 0
  }

  /** Events that were received, and that the cursor has not passed. */
  get pending(): number {
    return this.#underWay.size
  }

  /** Events from the first that is not done. */
  get openSpan(): number {
    return this.#underWay.openSpan
  }

  /** The first event that is not done. */
  get oldest(): UpstreamEvent | undefined {
    return this.#underWay.oldest
  }

  /**
   * What is known of an event from before a restart. `overtaken`: it is not in our log, but newer events of its account
   * are, so it was refused then.
   */
  fateOf(did: Did, upstreamSeq: number): 'done' | 'overtaken' | undefined {
    if (this.#done.size > 0 && this.#done.has(upstreamSeq)) return 'done'
    return upstreamSeq < (this.#newestLogged.get(did) ?? 0) ? 'overtaken' : undefined
  }

  /** Whether an event that came after this one was done before the last restart. It may have been left out. */
  wasOvertaken(upstreamSeq: number): boolean {
    return upstreamSeq < this.#doneUpTo
  }

  /** Notes from the log, at start, that an event of this epoch is in it. @param did undefined where it cannot be read. */
  noteLogged(upstreamSeq: number, did: Did | undefined): void {
    if (upstreamSeq <= this.cursor) return
    this.#done.add(upstreamSeq)
    if (did !== undefined)
      this.#newestLogged.set(did, Math.max(upstreamSeq, this.#newestLogged.get(did) ?? 0))
    this.#hasNotedLogged = true
  }

  begin(receipt: Receipt): void {
    this.#underWay.begin(receipt)
  }

  /**
   * Moves the cursor over everything that is done, given how far our log is durable. True if there is something to
   * store: the cursor moved, or more above it is logged. The state must not pass such events without their names.
   */
  advance(durableSeq: number): boolean {
    const before = this.cursor
    this.#underWay.pass(durableSeq, ({ loggedAs = 0, epoch, upstreamSeq }) => {
      if (loggedAs > 0) this.eventsLogged++
      if (epoch === this.epoch) this.cursor = Math.max(this.cursor, upstreamSeq)
    })
    for (const seq of this.#done) if (seq <= this.cursor) this.#done.delete(seq)
    for (const [did, seq] of this.#newestLogged) if (seq <= this.cursor) this.#newestLogged.delete(did)
    const hasNewAhead = this.#underWay.hasNewAhead(durableSeq) || this.#hasNotedLogged
    this.#hasNotedLogged = false
    return this.cursor > before || hasNewAhead
  }

  /**
   * The source is read from another position. What was seen before drops by its revision. What lies between the positions
   * may be lost, and a source that numbers its events anew may have lost any.
   */
  beginEpoch(nowMs: number, cursor: number): void {
    this.epoch++
    this.epochAtMs = nowMs
    this.cursor = cursor
    this.#done.clear()
    this.#doneUpTo = 0
    this.#newestLogged.clear()
    this.movedOnTo = 0
    this.lostAtMs = this.nowMs()
  }

  /** The log knows of an epoch that was not stored: it is read from its oldest event again. */
  enterEpoch(epoch: number, nowMs: number): void {
    this.beginEpoch(nowMs, 0)
    this.epoch = epoch
  }

  /**
   * All its accounts were looked after since it lost events.
   * @param doneBy seq of our log together with which what came of that is stored.
   */
  endLoss(doneBy: number): void {
    this.#lossOver = { lostAtMs: this.lostAtMs, doneBy }
    this.lostAtMs = 0
  }

  /** Where the walk through its accounts goes on that was stored for this loss. Empty at the first. */
  walkFrom(lostAtMs: number): string {
    return this.#walk.lostAtMs === lostAtMs ? this.#walk.from : ''
  }

  /** All its accounts before a DID were looked after since a loss. @param doneBy as for `endLoss`. */
  noteWalk(lostAtMs: number, from: string, doneBy: number): void {
    // What was noted before is about to be stored, and would never be if newer notes took its place all the time.
    this.#walkBy ??= { lostAtMs, from, doneBy }
  }

  /** Seq of our log together with which all that is noted of losses is stored. */
  get lossDoneBy(): number {
    return Math.max(this.#lossOver.doneBy, this.#walkBy?.doneBy ?? 0)
  }

  /**
   * Goes on after a position that cannot be read. Events before it that are not done keep the cursor, or a kill would lose
   * them.
   */
  skipTo(cursor: number): void {
    this.movedOnTo = cursor
    if (cursor <= this.receivedSeq) return
    const receivedAtMs = this.nowMs()
    this.lostAtMs = receivedAtMs
    const done = { event: undefined, loggedAs: 0, doneBy: 0 }
    this.begin({ epoch: this.epoch, upstreamSeq: cursor, receivedAtMs, place: 0, ...done })
  }

  /**
   * What has to be stored. All events that are done above the cursor are named: those in the log would be logged twice,
   * and those that were refused could pass now, after newer ones of their account.
   */
  stored(durableSeq: number): StoredSource {
    const ahead = this.#underWay.ahead(this.epoch, durableSeq)
    const { id, host, url, cursor, epoch, epochAtMs, revision } = this
    const isOver = this.lostAtMs === 0 && durableSeq < this.#lossOver.doneBy
    const { lostAtMs } = isOver ? this.#lossOver : this
    if (this.#walkBy && this.#walkBy.doneBy <= durableSeq) {
      this.#walk = this.#walkBy
      this.#walkBy = undefined
    }
    const walkFrom = this.walkFrom(lostAtMs)
    const lists = {
      ahead: [...this.#done, ...ahead],
      newestLogged: [...this.#newestLogged],
      looks: [...this.looks],
    }
    const caughtUpAtMs = this.wasRead ? this.reading.caughtUpAtMs : 0
    return { id, host, url, cursor, epoch, epochAtMs, ...lists, lostAtMs, revision, walkFrom, caughtUpAtMs }
  }
}
