import type {
  AccountBound,
  AccountMessage,
  IdentityMessage,
  RefusalReason,
  SyncMessage,
} from '@tributary/repo-verify'
import { rowKind } from '@tributary/segment'
import type { NewRow } from '../archive/archive.ts'
import { isHidden, leavesArchive } from '../delivery/hidden-accounts.ts'
import type { WatchPolicy } from '../policy/watched-collections.ts'
import type { Good, GoodCommit, GoodSync } from '../verify/verified.ts'
import { broughtLive } from './archived-records.ts'
import { commitRows, type DroppedOpReason, markerRow } from './event-rows.ts'
import { markerPath } from './repo-refill.ts'
import { newestRevOf, type RepoState, type RepoStates, unknownRepo, type WrittenRows } from './repo-states.ts'
import { type EventName, eventName } from './written-rows.ts'

/** Why a verified event gives no row. */
export interface Repeated {
  reason: RefusalReason | 'stale-rev' | 'repeat' | 'account-hidden' | 'passed-over'
  detail: string
}

export interface EventFoldOptions {
  states: RepoStates
  /** Whether a commit of a known repository has to name the tree that it continues. */
  needsPrevData: boolean
  watched: WatchPolicy
  append: (row: NewRow, upstreamSeq: number) => void
  /** Microseconds since 1970. */
  witnessedNow: () => number
  onOpDropped: (reason: DroppedOpReason, did: string) => void
  /** Told of an account that was taken down, when its state says so. */
  onTakedown: (did: string) => void
  /** Told of an account that is active, has another identity, or writes and was never read as a whole, once its state says so. */
  onActive: (did: string) => void
  /** A commit did not continue what is stored of its repository. */
  onDiscontinuity: (did: string) => void
}

/** Folds verified events into the states of their repositories, and appends the rows of those that are news. */
export class EventFold {
  readonly #options: EventFoldOptions

  constructor(options: EventFoldOptions) {
    this.#options = options
  }

  /**
   * Applies one event. What it returns, if anything, is why the event gave no row.
   * @param epoch the numbering of the relay that it came in; a later one may bring old events again.
   */
  apply(event: Good | Marker, message: AccountBound, epoch: number): Repeated | undefined {
    switch (event.kind) {
      case 'commit':
        return this.#applyCommit(event)
      case 'sync':
        return message.kind === 'sync' ? this.#applySync(event, message) : undefined
      case 'identity':
        return this.#applyMarker(event, 'identitySeen', epoch)
      case 'account':
        return this.#applyMarker(event, 'accountSeen', epoch)
    }
  }

  /** An event of this account was left out, so records of it may be missing. */
  markIncomplete(did: string): void {
    this.#options.states.mark(did)
  }

  #applyCommit(commit: GoodCommit): Repeated | undefined {
    const { did, rev, data, since, prevData } = commit
    const { states, watched, needsPrevData, witnessedNow, onOpDropped, onDiscontinuity } = this.#options
    const state = this.#stateOf(did)
    const isKnown = state.rev !== ''
    const newest = newestRevOf(state)
    if (rev <= newest) {
      this.#passOver(commit, state)
      return { reason: 'stale-rev', detail: `rev ${rev} is not after ${newest}` }
    }
    if (isKnown && prevData === undefined && needsPrevData) {
      // Its host may never send `prevData`. Reading the repository, some times a day at most, brings what the commit says.
      states.mark(did)
      return { reason: 'missing-prev-data', detail: `rev ${rev} does not name the tree before it` }
    }
    const isContinuous = !isKnown || (since === state.rev && prevData === state.data)
    if (!isContinuous) onDiscontinuity(did)
    const rows = commitRows(commit, witnessedNow(), (reason) => onOpDropped(reason, did))
    const isArchived = unarchived(rows, writtenOf(commit, state)).length === 0
    const leftOut = isArchived ? undefined : whyLeftOut(commit, state)
    const written = this.#append(commit, state, leftOut ? [] : rows)
    // Relays pass on nothing of an inactive account. If one passes on a commit of an account that is hidden here, the mark has
    // the relay asked whether the account is active again.
    const isWhole = isContinuous && !leftOut && !commit.dropped.includes('missing-record')
    // The first commit of all begins with nothing, so everything of the repository comes with it or after it.
    const isFirst = !isKnown && !leftOut && since === null && prevData === undefined
    const completeRevision = isFirst ? watched.revision : state.completeRevision
    const isNoted = !leftOut && completeRevision > 0 && completeRevision < watched.newestAddition
    // A repository that is marked is written again after a marker, so nothing has to be noted of it.
    const needsRefetch = state.needsRefetch || !isWhole || (isNoted && states.archived.isFull(did))
    states.set(did, { ...state, rev, data, needsRefetch, completeRevision, written })
    if (isNoted && !needsRefetch) this.#noteBroughtLive(commit, completeRevision)
    // Whoever writes has a host and a key, so that what a job could not have of it is to be had.
    if (completeRevision === 0 && !leftOut && !needsRefetch) this.#options.onActive(did)
    return leftOut
  }

  /**
   * Moves the chain on with a commit that is older than the rows of a backfill which a stop cut short: otherwise the next
   * commit would have the whole repository read again. The rows of the commit are in the archive before those. After a marker
   * the chain stays, because only what the refill writes counts then, and it has to be begun again.
   */
  #passOver(commit: GoodCommit, state: Readonly<RepoState>): void {
    const { did, rev, data, since, prevData } = commit
    const { states } = this.#options
    const isNext = state.rev !== '' && rev > state.rev && since === state.rev && prevData === state.data
    if (!isNext || states.archived.get(did, markerPath) !== undefined) return
    const written = state.written.filter(({ event }) => event !== eventName(commit))
    states.set(did, { ...state, rev, data, written })
  }

  /** Keeps in mind which records of added collections need not be written by the backfill of their addition. */
  #noteBroughtLive({ did, ops }: GoodCommit, completeRevision: number): void {
    const { states, watched } = this.#options
    for (const { collection, rkey } of ops) {
      if (watched.isAddedAfter(collection, completeRevision))
        states.archived.note(did, `${collection}/${rkey}`, broughtLive)
    }
  }

  #applySync(sync: GoodSync, message: SyncMessage): Repeated | undefined {
    const { did, rev, data } = sync
    const state = this.#stateOf(did)
    const newest = newestRevOf(state)
    if (rev < newest) return { reason: 'stale-rev', detail: `rev ${rev} of a sync is before ${newest}` }
    if (rev === state.syncRev) return { reason: 'repeat', detail: `the sync of rev ${rev} came again` }
    const row = markerRow(rowKind.sync, message, this.#options.witnessedNow())
    const written = this.#append(sync, state, [row])
    const isNews = rev !== state.rev || data !== state.data
    const needsRefetch = state.needsRefetch || isNews
    this.#options.states.set(did, { ...state, rev, data, syncRev: rev, needsRefetch, written })
    return undefined
  }

  #applyMarker(event: Marker, field: 'identitySeen' | 'accountSeen', epoch: number): Repeated | undefined {
    const { kind, did, time } = event
    const state = this.#stateOf(did)
    if (isRepeat(event, epoch, state[field])) {
      return { reason: 'repeat', detail: `the ${kind} event of ${time} came again` }
    }
    const witnessedAt = this.#options.witnessedNow()
    const row = markerRow(rowKind[kind], event, witnessedAt)
    const name = eventName(event)
    const isArchived = state.written.some((other) => other.event === name)
    const written = this.#append(event, state, [row])
    const seen = `${epoch}/${event.upstreamSeq}/${Math.floor(witnessedAt / 1000)} ${name}`
    const isDown = event.kind === 'account' && isHidden(event)
    if (event.kind === 'account' && isTakedown(event)) this.#options.onTakedown(did)
    // If the row is archived, the state knows what it says already, and what newer rows say.
    const hidden = event.kind === 'account' && !isArchived ? isDown : state.isHidden
    const isTakenDown = hidden && (state.isTakenDown || (event.kind === 'account' && leavesArchive(event)))
    // Readers have been past what was hidden, and it may have left the archive. Readers go by events, so this holds also
    // when the state is corrected already, because the relay was asked (`AccountCorrections`).
    const wasHidden = state.isHidden || (!isArchived && saysHidden(state.accountSeen))
    const isBack =
      event.kind === 'account' && wasHidden && !hidden && (state.rev !== '' || state.backfillRev !== '')
    const needsRefetch = state.needsRefetch || isBack
    const known = { [field]: seen, isHidden: hidden, isTakenDown, needsRefetch, written }
    this.#options.states.set(did, { ...state, ...known })
    // What a backfill wrote that was stopped on its way may leave the archive too, so it is written again.
    if (hidden && !state.isHidden) this.#options.states.archived.forget(did)
    // Its document may name a host and a key by now.
    if (!hidden && (event.kind === 'identity' || event.active)) this.#options.onActive(did)
    return undefined
  }

  /** Appends the rows of an event that are not archived yet. Returns what then is written ahead of the state. */
  #append(
    event: EventName & { upstreamSeq: number },
    { written }: Readonly<RepoState>,
    rows: readonly NewRow[],
  ): readonly WrittenRows[] {
    const name = eventName(event)
    const at = written.findIndex((other) => other.event === name)
    const of = written[at]
    for (const row of unarchived(rows, of)) this.#options.append(row, event.upstreamSeq)
    if (!of) return written
    if (event.kind === 'commit') return written.toSpliced(at, 1)
    // Markers of one millisecond may have one name: then there are rows of the next one, too.
    const left = of.rows - rows.length
    return written.toSpliced(at, 1, ...(left > 0 ? [{ event: name, rows: left }] : []))
  }

  #stateOf(did: string): Readonly<RepoState> {
    return this.#options.states.get(did) ?? unknownRepo
  }
}

/** An event that nobody signs. */
export type Marker = IdentityMessage | AccountMessage

/** Whether an event has all records of its account taken out of the archive. */
export function isTakedown(event: AccountMessage): boolean {
  return isHidden(event) && event.status === 'takendown'
}

/** Why a commit gives no more rows than are archived of it. Undefined when it gives them. */
function whyLeftOut({ rev }: GoodCommit, { isHidden, written }: Readonly<RepoState>): Repeated | undefined {
  // Segments would keep rows that nobody may see. The repository is read when the account is active again.
  if (isHidden)
    return { reason: 'account-hidden', detail: `rev ${rev} was written while the account is not active` }
  // Before a kill the commit gave no rows, because its account was hidden or could not be resolved, or it gave fewer rows
  // than now, because fewer collections were watched.
  return written.some(({ event }) => revOf(event) > rev)
    ? { reason: 'passed-over', detail: `rows of events after rev ${rev} are archived already` }
    : undefined
}

function writtenOf(event: EventName, { written }: Readonly<RepoState>): WrittenRows | undefined {
  const name = eventName(event)
  return written.find((other) => other.event === name)
}

/** Whether the account event that a state has as its newest one hides the account. */
function saysHidden(accountSeen: string): boolean {
  const [, , , active, ...status] = accountSeen.split(' ')
  return active === 'false' && isHidden({ active: false, status: status.join(' ') })
}

/** The rows of an event without those that are archived. A commit may have several of one record. */
function unarchived(
  rows: readonly NewRow[],
  { rows: done, paths }: WrittenRows = { event: '', rows: 0 },
): NewRow[] {
  if (!paths) return rows.slice(done)
  const left = [...paths]
  return rows.filter(({ draft: { collection, rkey } }) => {
    const at = left.indexOf(`${collection}/${rkey}`)
    if (at !== -1) left.splice(at, 1)
    return at === -1
  })
}

/** The revision in the name of a commit or sync. Empty for other events. */
function revOf(name: string): string {
  const [kind, rev = ''] = name.split(' ', 2)
  return kind === 'commit' || kind === 'sync' ? rev : ''
}

/**
 * Whether an event is the last one seen, or came before it. Within one numbering of the relay, its numbers say so, whatever
 * the clocks of hosts say. In a later numbering, an event is old if its time is not after that of the last event seen. If the
 * clock of that event's host was ahead, the time at which the event came counts in its place.
 * @param seen as `#applyMarker` writes it. Older versions wrote no number, or no time at which the event came.
 */
function isRepeat(event: Marker, epoch: number, seen: string): boolean {
  const [place = '', , seenTime = ''] = seen.split(' ', 3)
  if (seen === `${place} ${eventName(event)}`) return true
  const [seenEpoch = '', seenSeq = '0', cameMs = 'Infinity'] = place.split('/')
  if (Number(seenEpoch) === epoch) return event.upstreamSeq <= Number(seenSeq)
  const newestMs = Math.min(Date.parse(seenTime), Number(cameMs))
  return Number(seenEpoch) < epoch && Date.parse(event.time) <= newestMs
}
