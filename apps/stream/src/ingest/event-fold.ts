import { FrameError } from '@tributary/protocol'
import type { RefusalReason, VerifiedCommit, VerifiedEvent, VerifiedSync } from '@tributary/repo-verify'
import { rowKind } from '@tributary/segment'
import type { NewRow, RecoveredRows } from '../archive/archive.ts'
import { eventKindOf } from '../archive/event-kind.ts'
import { commitRows, type DroppedOpReason, markerRow } from './event-rows.ts'
import { type RepoState, type RepoStates, unknownRepo } from './repo-states.ts'

/** Why a verified event gives no row. */
export interface Repeated {
  reason: RefusalReason | 'stale-rev' | 'repeat'
  detail: string
}

export interface EventFoldOptions {
  states: RepoStates
  isWatched: (collection: string) => boolean
  /** Whether a commit of a known repository has to name the tree that it continues. */
  needsPrevData: boolean
  /** Events that have rows already though the saved states do not know, as `rowsWritten` tells. Used up here. */
  written: Map<string, number>
  append: (row: NewRow, upstreamSeq: number) => void
  /** Microseconds since 1970. */
  witnessedNow: () => number
  onOpDropped: (reason: DroppedOpReason, did: string) => void
  /** A commit did not continue what is stored of its repository. */
  onDiscontinuity: (did: string) => void
}

/** Names an event by what it says, not by the relay's numbering, as far as it can. */
function eventKey(kind: 'commit' | 'sync' | 'marker', did: string, revOrSeq: string | number): string {
  return `${kind} ${did} ${revOrSeq}`
}

/** How many rows each event gave that the saved states do not know of, by `eventKey`. */
export function rowsWritten(unapplied: RecoveredRows['unapplied']): Map<string, number> {
  const written = new Map<string, number>()
  for (const { row, upstreamSeq } of unapplied) {
    const kind = eventKindOf(row.kind)
    const isMarker = kind === 'identity' || kind === 'account'
    const key = isMarker ? eventKey('marker', row.did, upstreamSeq) : eventKey(kind, row.did, row.rev)
    written.set(key, (written.get(key) ?? 0) + 1)
  }
  return written
}

/** Folds verified events into the states of their repositories, and appends the rows of those that are news. */
export class EventFold {
  readonly #options: EventFoldOptions

  constructor(options: EventFoldOptions) {
    this.#options = options
  }

  /** Applies one event. What it returns, if anything, is why the event gave no row. */
  apply(event: VerifiedEvent, frame: Uint8Array): Repeated | undefined {
    switch (event.kind) {
      case 'commit':
        return this.#applyCommit(event)
      case 'sync':
        return this.#applySync(event, frame)
      case 'identity':
        return this.#applyMarker(event, frame, 'identitySeen', `${event.time} ${event.handle ?? ''}`)
      case 'account':
        return this.#applyMarker(
          event,
          frame,
          'accountSeen',
          `${event.time} ${event.active} ${event.status ?? ''}`,
        )
      case 'info':
      case 'error':
      case 'unknown':
        return undefined
    }
  }

  /** Nothing is known of an event of this account, so records of it may be missing. */
  markIncomplete(did: string): void {
    this.#options.states.set(did, { ...this.#stateOf(did), needsRefetch: true })
  }

  #applyCommit(commit: VerifiedCommit): Repeated | undefined {
    const { did, rev, data, since, prevData } = commit
    const { states, isWatched, needsPrevData, witnessedNow, onOpDropped, onDiscontinuity } = this.#options
    const state = this.#stateOf(did)
    const isKnown = state.rev !== ''
    if (rev <= state.rev) return { reason: 'stale-rev', detail: `rev ${rev} is not after ${state.rev}` }
    if (isKnown && prevData === undefined && needsPrevData) {
      return { reason: 'missing-prev-data', detail: `rev ${rev} does not name the tree before it` }
    }
    const isContinuous = !isKnown || (since === state.rev && prevData === state.data)
    if (!isContinuous) onDiscontinuity(did)
    const rows = commitRows(commit, isWatched, witnessedNow(), (reason) => onOpDropped(reason, did))
    this.#append(commit, eventKey('commit', did, rev), rows)
    states.set(did, { ...state, rev, data, needsRefetch: state.needsRefetch || !isContinuous })
    return undefined
  }

  #applySync(sync: VerifiedSync, frame: Uint8Array): Repeated | undefined {
    const { did, rev, data } = sync
    const state = this.#stateOf(did)
    if (rev < state.rev) return { reason: 'stale-rev', detail: `rev ${rev} of a sync is before ${state.rev}` }
    if (rev === state.syncRev) return { reason: 'repeat', detail: `the sync of rev ${rev} came again` }
    const row = this.#markerRow(sync, frame)
    if ('reason' in row) return row
    this.#append(sync, eventKey('sync', did, rev), [row])
    const isNews = rev !== state.rev || data !== state.data
    const needsRefetch = state.needsRefetch || isNews
    this.#options.states.set(did, { ...state, rev, data, syncRev: rev, needsRefetch })
    return undefined
  }

  #applyMarker(
    event: Extract<VerifiedEvent, { kind: 'identity' | 'account' }>,
    frame: Uint8Array,
    field: 'identitySeen' | 'accountSeen',
    seen: string,
  ): Repeated | undefined {
    const { kind, did, time, upstreamSeq } = event
    const state = this.#stateOf(did)
    if (state[field] === seen) return { reason: 'repeat', detail: `the ${kind} event of ${time} came again` }
    const row = this.#markerRow(event, frame)
    if ('reason' in row) return row
    this.#append(event, eventKey('marker', did, upstreamSeq), [row])
    this.#options.states.set(did, { ...state, [field]: seen })
    return undefined
  }

  #markerRow(
    event: Extract<VerifiedEvent, { kind: 'identity' | 'account' | 'sync' }>,
    frame: Uint8Array,
  ): NewRow | Repeated {
    try {
      return markerRow(rowKind[event.kind], event, frame, this.#options.witnessedNow())
    } catch (error) {
      if (error instanceof FrameError) return { reason: 'malformed-frame', detail: error.message }
      throw error
    }
  }

  /** Appends the rows of an event, except those that it gave before a stop that the saved states do not know of. */
  #append(event: { upstreamSeq: number }, key: string, rows: readonly NewRow[]): void {
    const { written, append } = this.#options
    const done = written.get(key) ?? 0
    if (done > 0) written.delete(key)
    for (const row of rows.slice(done)) append(row, event.upstreamSeq)
  }

  #stateOf(did: string): Readonly<RepoState> {
    return this.#options.states.get(did) ?? unknownRepo
  }
}
