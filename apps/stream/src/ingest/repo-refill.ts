import { RecordError } from '@tributary/protocol'
import type { Digest, RepoRecord } from '@tributary/repo-verify'
import { rowKind, segmentLimits } from '@tributary/segment'
import type { NewRow } from '../archive/archive.ts'
import { recordContent } from '../delivery/record-content.ts'
import type { WatchPolicy } from '../policy/watched-collections.ts'
import { broughtLive } from './archived-records.ts'
import { type DroppedOpReason, syntheticSync } from './event-rows.ts'
import { newestRevOf, type RepoState, type RepoStates, unknownRepo } from './repo-states.ts'

/** A repository as it was read as a whole and verified, with its records of the collections that were watched then. */
export interface RepoContents {
  did: string
  rev: string
  data: Digest
  /** In the order of the tree. */
  records: readonly RepoRecord[]
  /** Revision of the watched collections that the records are of, as it was before the repository was asked for. */
  watchRevision: number
  /** `RepoStates.marks` before the repository was asked for. */
  marksBefore: number
}

export type RefillOutcome =
  /** The archive has everything of the repository now. */
  | { is: 'whole'; rows: number }
  /** Nothing was missing. */
  | { is: 'complete' }
  /** Events up to the revision that was read did not come yet, and may say more than the repository does. */
  | { is: 'live-behind' }
  /** Newer events came since: the repository has to be read again. */
  | { is: 'contents-behind' }
  /** The account is not active any more: the repository is read again when it is. */
  | { is: 'hidden' }

export interface RepoRefillOptions {
  states: RepoStates
  watched: WatchPolicy
  append: (row: NewRow) => void
  /** Microseconds since 1970. */
  witnessedNow: () => number
  onRecordDropped: (reason: DroppedOpReason, did: string) => void
  /**
   * Events that did not come yet are not waited for: the repository replaces what they would have brought. They give no
   * rows when they come after all.
   */
  mayReplace: boolean
  /** Called as soon as the archive has everything, before anything else of the account is done. */
  onWhole: () => void
  /** Rows of one turn of the event loop, at most. Default 64: about two milliseconds. */
  rowsPerTurn?: number
}

/**
 * How what is missing is written. `first`: nothing of the account is archived, and its records are creates. `added`: the
 * same, of collections that were added since it was whole. `again`: all of it, after a `#sync` that takes back what was.
 */
type Way = 'first' | 'added' | 'again'

interface Plan {
  is: Way
  /** What the state was when the writing began. */
  state: Readonly<RepoState>
  /** The archive has something already of what is to be written. */
  isResumed: boolean
  /** A refill that a stop ended has written all up to this record, of what was watched at that revision. */
  upTo: { watchRevision: number; path: string }
}

/** The path of the note that holds `upTo`. No record has this path. */
const upToPath = '$upTo'
/** The path of the note that holds the revision of the marker, while a rewrite is under way. No record has this path. */
export const markerPath = '$sync'
const rowsPerTurnDefault = 64
/** Bytes of records after which a turn ends, whatever they are: one may have a megabyte. */
const bytesPerTurn = 64 * 1024
/** Records that are looked at in one turn, most of which may be archived already: some five milliseconds. */
const looksPerTurn = 1000

/**
 * Writes what the archive lacks of one repository, in the lane of its account and some rows at a time. What was written
 * by a refill that a stop ended is not written again.
 */
export class RepoRefill {
  readonly #contents: RepoContents
  readonly #options: RepoRefillOptions
  #plan: Plan | undefined
  #next = 0
  #rows = 0

  constructor(contents: RepoContents, options: RepoRefillOptions) {
    this.#contents = contents
    this.#options = options
  }

  /** Writes some rows. Undefined when there are more to write: nothing else of the account may be done before them. */
  step(): RefillOutcome | undefined {
    const begun = this.#plan ?? this.#begin()
    if (!('state' in begun)) return begun
    this.#plan = begun
    const { records } = this.#contents
    const { rowsPerTurn = rowsPerTurnDefault } = this.#options
    let bytesLeft = bytesPerTurn
    const end = Math.min(this.#next + looksPerTurn, records.length)
    try {
      for (let left = rowsPerTurn; left > 0 && bytesLeft > 0 && this.#next < end; this.#next++) {
        const record = records[this.#next]
        if (!record || !this.#isMissing(record, begun)) continue
        this.#write(record, begun)
        left--
        bytesLeft -= record.record.length
      }
    } finally {
      // Noted after a defect, too, so that the next refill writes nothing twice.
      if (this.#next < records.length) this.#noteProgress(begun)
    }
    if (this.#next < records.length) return undefined
    this.#finish(begun)
    return { is: 'whole', rows: this.#rows }
  }

  #begin(): Plan | RefillOutcome {
    const { states, watched, mayReplace } = this.#options
    const { did, rev, watchRevision } = this.#contents
    const state = states.get(did) ?? unknownRepo
    if (state.isHidden) {
      // Its records may have left the files already. The pass that takes them out does not come again.
      states.mark(did)
      return { is: 'hidden' }
    }
    if (state.rev === '') {
      if (rev < state.backfillRev) return { is: 'contents-behind' }
      // What a stop left of another revision may hold records that are gone: a marker takes it back.
      const isOfAnother = state.backfillRev !== '' && rev !== state.backfillRev
      // So may commits that a stop left, whose events have not come again yet.
      const hasLive = state.written.some(({ event }) => event.startsWith('commit '))
      // The account was hidden since, and what was written of it may have left the archive.
      const isLost = state.backfillRev !== '' && state.needsRefetch
      const hasMarker = states.archived.get(did, markerPath) !== undefined
      return isOfAnother || hasLive || isLost || hasMarker || this.#isAddedAgain()
        ? this.#rewrite(state)
        : this.#planned('first', state)
    }
    // The first commit of all may have come meanwhile, for more collections than were watched when it was asked for.
    if (watchRevision < state.completeRevision) return { is: 'contents-behind' }
    if (state.needsRefetch || state.completeRevision === 0) {
      return rev < newestRevOf(state) ? { is: 'contents-behind' } : this.#rewrite(state)
    }
    if (rev > state.rev) return mayReplace ? this.#rewrite(state) : { is: 'live-behind' }
    if (state.completeRevision >= watched.newestAddition) {
      this.#options.onWhole()
      return { is: 'complete' }
    }
    // Records that were archived before a collection was removed may have been changed or deleted since.
    if (watched.isAnyAddedAgain(state.completeRevision, watchRevision)) {
      if (rev < newestRevOf(state)) return { is: 'contents-behind' }
      // What a stop leaves half written is read again also when the collection is removed once more.
      return this.#rewrite({ ...state, needsRefetch: true })
    }
    return this.#planned('added', state)
  }

  /** Everything is written after a marker, which is there already when a stop ended that on its way. */
  #rewrite(state: Readonly<RepoState>): Plan {
    const { archived } = this.#options.states
    const { did, rev } = this.#contents
    if (archived.get(did, markerPath) === rev && !this.#isAddedAgain()) return this.#planned('again', state)
    archived.forget(did)
    this.#options.append(syntheticSync(did, rev, this.#options.witnessedNow()))
    archived.note(did, markerPath, rev)
    return { ...this.#planned('again', state), isResumed: false }
  }

  #planned(is: Way, before: Readonly<RepoState>): Plan {
    const { states } = this.#options
    const { did, rev } = this.#contents
    const state = { ...before, backfillRev: rev }
    states.set(did, state)
    return { is, state, isResumed: states.archived.has(did), upTo: this.#upTo() }
  }

  /** How far a refill came that a stop ended. */
  #upTo(): Plan['upTo'] {
    const noted = this.#options.states.archived.get(this.#contents.did, upToPath)
    const [watchRevision = '', path = ''] = noted?.split(' ') ?? []
    return { watchRevision: Number(watchRevision), path }
  }

  /** A collection was removed and came again since a stop, so some of it may be written, and some may have changed. */
  #isAddedAgain(): boolean {
    const { watchRevision, path } = this.#upTo()
    return path !== '' && this.#options.watched.isAnyAddedAgain(watchRevision, this.#contents.watchRevision)
  }

  /** Notes how far the refill is: a note for each of a million records would hold the event loop when it is saved. */
  #noteProgress({ upTo }: Plan): void {
    const { did, records, watchRevision } = this.#contents
    const last = records[this.#next - 1]
    if (last && pathOf(last) > upTo.path)
      this.#options.states.archived.note(did, upToPath, `${watchRevision} ${pathOf(last)}`)
  }

  #isMissing(record: RepoRecord, { is, state, isResumed, upTo }: Plan): boolean {
    const { states, watched } = this.#options
    const { collection, cid } = record
    // Live events of a collection may say more when it was added after the repository was asked for.
    if (!watched.has(collection) || watched.isAddedAfter(collection, this.#contents.watchRevision))
      return false
    if (is === 'added' && !watched.isAddedAfter(collection, state.completeRevision)) return false
    if (!isResumed) return true
    const path = pathOf(record)
    if (path <= upTo.path && !watched.isAddedAfter(collection, upTo.watchRevision)) return false
    const known = states.archived.get(this.#contents.did, path)
    return known !== broughtLive && known !== cid
  }

  #write(repoRecord: RepoRecord, { is, upTo }: Plan): void {
    const { states, append, witnessedNow, onRecordDropped } = this.#options
    const { collection, rkey, cid, record } = repoRecord
    const kind = is === 'again' ? rowKind.createResync : rowKind.create
    const { did, rev } = this.#contents
    if (collection.length > segmentLimits.collectionBytes || rkey.length > segmentLimits.rkeyBytes) {
      onRecordDropped('name-too-long', did)
      return
    }
    try {
      const content = Buffer.from(recordContent(record, cid))
      const witnessedAt = witnessedNow()
      append({
        draft: { kind, witnessedAt, indexedAt: 0, collection, did, rkey, rev, payload: record },
        content,
      })
    } catch (error) {
      if (!(error instanceof RecordError)) throw error
      onRecordDropped('unreadable-record', did)
      return
    }
    const path = pathOf(repoRecord)
    if (path <= upTo.path) states.archived.note(did, path, cid)
    this.#rows++
  }

  #finish({ is, isResumed }: Plan): void {
    const { states, watched, onWhole } = this.#options
    const { did, rev, data, watchRevision, marksBefore } = this.#contents
    const state = states.get(did) ?? unknownRepo
    const isNewest = rev >= state.rev
    const isMarkDone = is !== 'added' && !states.isMarkedSince(did, marksBefore)
    states.set(did, {
      ...state,
      ...(isNewest ? { rev, data, written: state.written.filter(({ event }) => !isUpTo(event, rev)) } : {}),
      // The repository may lack an event that was lost after it was asked for: then the mark stays.
      needsRefetch: state.needsRefetch && !isMarkDone,
      completeRevision: watchRevision,
      backfillRev: '',
    })
    // Collections that were added since have a backfill of their own, which needs the notes of their records.
    const added = isResumed
      ? [...watched.names()].filter((name) => watched.isAddedAfter(name, watchRevision))
      : []
    const kept = added.flatMap((collection) => [...states.archived.of(did, collection)])
    states.archived.forget(did)
    for (const [path, cid] of kept) if (cid === broughtLive) states.archived.note(did, path, cid)
    onWhole()
  }
}

function pathOf({ collection, rkey }: RepoRecord): string {
  return `${collection}/${rkey}`
}

/**
 * Whether an event will be refused as old when it comes again, because the repository of revision `rev` is written. A `#sync`
 * of that very revision will not, and its row is archived already.
 * @param event its name in `written`
 */
function isUpTo(event: string, rev: string): boolean {
  const [kind, eventRev = ''] = event.split(' ', 2)
  return kind === 'commit' ? eventRev <= rev : kind === 'sync' && eventRev < rev
}
