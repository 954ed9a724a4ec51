/** What waits in the lanes of the ingest. */
import type { Identity } from '@tributary/identity'
import type { Lane, LaneSource } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import { type AccountBound, isSigned } from '@tributary/repo-verify'
import { isTakedown } from './event-fold.ts'
import type { Progress } from './progress.ts'
import type { RefillOutcome, RepoRefill } from './repo-refill.ts'

/** One message of the relay that is not done. */
export interface RelayEvent {
  readonly source: Upstream
  readonly message: AccountBound
  /** In milliseconds since 1970. Put right when the clock was set back. */
  receivedMs: number
  /** The numbering of the relay that the event belongs to, and the progress in it. */
  readonly epoch: number
  readonly progress: Progress
  /** Why what it waited for did not come. */
  waitFault: 'identity-unavailable' | 'internal-error' | undefined
  /** Its key must come from a document that was read since then, in milliseconds since 1970. */
  keySinceMs: number
  /** What it is verified with, while it is. */
  verifiedWith: { identity: Identity; collections: ReadonlySet<string> } | undefined
}

/** A repository that is written into the archive, in the order of its account's events. */
export interface RefillEvent {
  /** It has none: a lane keeps it beside those that have. */
  readonly message: { bytes: Buffer }
  readonly refill: RepoRefill
  /** It has its turn. May be called again. */
  begin(): void
  end(outcome: RefillOutcome | { is: 'no-room' }): void
  fail(error: unknown): void
}

export type AnyEvent = RelayEvent | RefillEvent
export type EventLane = Lane<Upstream, AnyEvent>

/** Whether an event is an `#identity` or `#account`. Nobody signs these, and nothing else tells what they say. */
export function isMarker(event: AnyEvent): boolean {
  return !('refill' in event) && !isSigned(event.message)
}

/** Whether an event has all records of its account taken out of the archive. */
export function isTakedownEvent(event: AnyEvent): boolean {
  return !('refill' in event) && event.message.kind === 'account' && isTakedown(event.message)
}

/** The relay, as far as lanes look at it. */
export class Upstream implements LaneSource<Upstream, AnyEvent> {
  readonly lanes: Map<Did, EventLane> = new Map()
  readonly largeLanes: Set<EventLane> = new Set()
  waitingBytes = 0
  waitingLanes = 0
  crowdedBy: EventLane | undefined
  crowdedAtMs = 0
}
