import type { EventLog, LogSlice } from '@tributary/event-log'
import type { Did } from '@tributary/protocol'
import { isSigned, readMessage, trustMessage, type VerifiedEvent } from '@tributary/repo-verify'
import { heldBackSince } from '../pipeline/breaks.ts'
import { continues, isMove } from '../pipeline/decide.ts'
import { KnownCollections } from '../pipeline/known-collections.ts'
import { partialSyncKind, readAccountKind } from '../pipeline/record-kinds.ts'
import type { SourceSet } from '../sources/source-set.ts'
import { collectionsOf } from '../verify/collections-of.ts'
import {
  activeNoteOf,
  publicStatus,
  statusOf,
  type Account,
  type LocalStatus,
  type PublicStatus,
} from './account.ts'
import type { StateStore } from './state-store.ts'
import type { StateTrail } from './state-trail.ts'

export interface Recovered {
  /** Records that the log had beyond the state. */
  folded: number
  /** Events among them that were left out: an older version passed on a message that no strict reader takes. */
  unreadable: number
  firstUnreadableSeq: number | undefined
}

export interface Recovering {
  log: EventLog
  store: StateStore
  sources: Pick<SourceSet, 'byId' | 'byHost'>
  trail: StateTrail
}

interface Folding extends Recovering {
  collections: KnownCollections
  /** Excluded accounts that need a slot, and of which the log does not say whether they have one. */
  unsure: Set<Did>
}

/** What a record says of an account. */
type AccountEvent = Extract<VerifiedEvent, { did: Did }>

/**
 * Folds into the state what the log holds beyond it: after a stop of any kind the log is ahead.
 * @throws Error when the state is ahead of the log, which has then lost something.
 */
export async function recoverState(parts: Recovering): Promise<Recovered> {
  const { log, store, trail } = parts
  const lastSeq = log.files.at(-1)?.lastSeq ?? 0
  if (store.appliedSeq > lastSeq) {
    throw new Error(
      `the state is ahead of the log: it knows seq ${store.appliedSeq}, but the log ends at ${lastSeq} and has lost records. Restore the log, or start once with --rebuild-state, which folds what the log has and reads every source again`,
    )
  }
  const folding: Folding = { ...parts, collections: new KnownCollections(), unsure: new Set() }
  const recovered: Recovered = { folded: 0, unreadable: 0, firstUnreadableSeq: undefined }
  for await (const slice of log.replay(store.appliedSeq)) {
    for (let row = 0; row < slice.count; row++) {
      const event = readRecord(slice, row)
      noteLogged(slice, row, event?.did, parts)
      if (event) {
        dropOutdated(event, slice.metaAt(row).source, parts)
        fold(slice, row, event, folding)
      } else {
        recovered.unreadable++
        recovered.firstUnreadableSeq ??= slice.seqAt(row)
      }
    }
    recovered.folded += slice.count
    // What is read from the log is durable: a long log is written in steps.
    trail.durable(slice.lastSeq)
    await trail.whenRoom()
  }
  settleSlots(lastSeq, folding)
  trail.durable(lastSeq)
  trail.flush()
  return recovered
}

/** A record shows how far its source was read. */
function noteLogged(
  slice: LogSlice,
  row: number,
  did: Did | undefined,
  { sources, trail }: Recovering,
): void {
  const { source: sourceId, epoch, upstreamSeq } = slice.metaAt(row)
  const source = sources.byId(sourceId)
  // A power cut can take the note of a new epoch, but not the records that came in it.
  if (source && source.epoch < epoch) source.enterEpoch(epoch, slice.timeMsAt(row))
  if (source?.epoch === epoch) source.noteLogged(upstreamSeq, did)
  trail.pass(slice.seqAt(row))
}

/**
 * A stored identity may be older than the one by which a record passed. It would let the host speak that the account has
 * left, or a key that it has replaced: it is read again before anyone is heard.
 */
function dropOutdated({ did, kind }: AccountEvent, sourceId: number, { store, sources }: Recovering): void {
  const { identities } = store
  const identity = identities.get(did)
  const source = sources.byId(sourceId)
  if (!identity || !source) return
  const { pdsHost = '' } = identity
  const direct = sources.byHost(pdsHost)
  // What a relay forwards does not count where the account's host is read directly.
  const isElsewhere =
    source.policy.kind === 'pds' ? source.host !== pdsHost : direct?.policy.kind === 'pds' && direct.isWanted
  if (kind === 'identity' || isElsewhere) identities.set(did, undefined)
}

/** Undefined when no strict reader takes the message. */
function readRecord(slice: LogSlice, row: number): AccountEvent | undefined {
  const message = readMessage(messageOf(slice.payloadAt(row)))
  const event = message.ok && isSigned(message) ? trustMessage(message) : message
  return event.ok && 'did' in event ? event : undefined
}

/** Does to an account what a record says. */
function fold(
  slice: LogSlice,
  row: number,
  event: AccountEvent,
  { store, sources, trail, collections, unsure }: Folding,
): void {
  // It changes no account, and most that hosts name in this way are nobody's.
  if (event.kind === 'identity') return
  const account = store.accounts.take(event.did)
  let newCollections: string[] = []
  const source = sources.byId(slice.metaAt(row).source)
  const hasMoved = source !== undefined && isMove(sources.byId(account.sourceId), source)
  if (event.kind === 'account') {
    if (foldAccount(slice, row, account, event, store)) unsure.add(event.did)
    if (hasMoved) account.isDesynchronized = account.isIncomplete = true
    if (account.upstreamStatus === 'deleted') collections.forget(account)
  } else {
    store.accounts.assign(account, slice.metaAt(row).source, account.upstreamStatus)
    // An account without a slot has no events in the log, so this one has a slot.
    if (account.throttledAtMs > 0) store.accounts.restore(account, 0)
    if (event.kind === 'sync')
      account.isDesynchronized = account.isIncomplete = slice.kindAt(row) === partialSyncKind
    else if (!continues(account, event)) {
      account.isDesynchronized = true
      account.isIncomplete ||= hasMoved
    }
    if (event.kind === 'commit') newCollections = collections.note(account, collectionsOf(event))
    account.rev = event.rev
    account.commit = event.commit
    account.data = event.data
  }
  trail.push(slice.seqAt(row), account, newCollections)
}

/**
 * An `#account` holds what this relay says; what the host says is in the kind of the record.
 *
 * Some records promise a `#sync` that makes up for what was left out: each record of our own by which an account is active,
 * because the record by which it was not may be lost; any record by which it is throttled or excluded no more, and any by
 * which another host speaks for it than before. Until that `#sync` is in the log, too, the account misses events. The
 * state may not have had the time to note this.
 * @returns whether the account needs a slot and the record does not say whether it got one. It has none for now.
 */
function foldAccount(
  slice: LogSlice,
  row: number,
  account: Account,
  event: PublicStatus,
  { accounts }: StateStore,
): boolean {
  const said = statusOf(event)
  const word = readAccountKind(slice.kindAt(row), said)
  if (!word) throw new Error(`record ${slice.seqAt(row)} of the log is of a kind that is not known`)
  const { upstreamStatus, isThrottled, isExcluded } = word
  const before = {
    ...publicStatus(account),
    wasThrottled: account.throttledAtMs > 0,
    wasExcluded: account.localStatus !== undefined,
    needsSlot: account.upstreamStatus === 'active',
    sourceId: account.sourceId,
  }
  if (upstreamStatus !== 'active') {
    account.isDesynchronized = true
    account.activeNote = undefined
  }
  // Beside `active` this relay says `throttled` of its own, too.
  else if (event.active && event.status !== 'throttled') account.activeNote = activeNoteOf(event)
  const isOwn = slice.metaAt(row).upstreamSeq === 0
  const isUnchanged = upstreamStatus === 'active' && (isExcluded || isThrottled === before.wasThrottled)
  const isStillAway =
    account.hasDeparted && isOwn && isUnchanged && slice.metaAt(row).source === before.sourceId
  if (!isStillAway) accounts.assign(account, slice.metaAt(row).source, upstreamStatus)
  // A record of an excluded account does not say whether the account has a slot: that is as it was, if it needed one.
  const isUnsure =
    isExcluded && upstreamStatus === 'active' && !(before.needsSlot && before.sourceId === account.sourceId)
  if (!isExcluded) accounts.restore(account, isThrottled ? slice.timeMsAt(row) : 0)
  else if (isUnsure) accounts.restore(account, slice.timeMsAt(row))
  account.localStatus = isExcluded ? (said as LocalStatus) : undefined // only those are logged with this kind
  if (isOwn) foldHoldBack(account, event, slice.timeMsAt(row), before.active)
  const isLetIn = before.wasExcluded && !isExcluded
  if (isLetIn || (event.active && (isOwn || before.wasThrottled)))
    account.isDesynchronized = account.isIncomplete = true
  return isUnsure
}

/** Accounts of which the log does not say whether they have a slot have one, if those that have one for sure leave it. */
function settleSlots(lastSeq: number, { store: { accounts }, trail, unsure }: Folding): void {
  for (const did of unsure) {
    const account = accounts.get(did)
    if (!account || account.throttledAtMs === 0 || account.localStatus === undefined) continue
    if (accounts.activeOf(account.sourceId) >= accounts.quotaOf(account.sourceId)) continue
    accounts.admit(account)
    trail.push(lastSeq, account)
  }
}

/**
 * An account that is active says `throttled` by our word from when it breaks its chain too often until it may do so
 * again. It is made whole at the end of that.
 */
function foldHoldBack(account: Account, event: PublicStatus, timeMs: number, wasActive: boolean): void {
  const isHeldBack = account.breaks?.areTooMany === true
  if (!event.active || !wasActive || isHeldBack === (event.status === 'throttled')) return
  account.breaks = isHeldBack ? undefined : heldBackSince(timeMs)
  account.isDesynchronized = account.isIncomplete = true
}

/** The message within a stored WebSocket frame. */
function messageOf(frame: Buffer): Buffer {
  const short = frame.readUInt8(1)
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}
