import type { Did } from '@tributary/protocol'

/** An event, as far as its lane looks at it. */
export interface LaneEvent {
  /** A lane puts a copy of the bytes here when it holds the event beyond the call that brought it. */
  readonly message: { bytes: Buffer }
}

/** Where events come from. Nothing that one source sent stands in the way of what another one sent. */
export interface LaneSource<S, E> {
  /** Lanes in which something of this source waits or is away. Only `Lanes` changes them. */
  readonly lanes: Map<Did, Lane<S, E>>
  /** Those of them in which so many bytes wait that a thousand like them would fill the source. Only `Lanes` changes them. */
  readonly largeLanes: Set<Lane<S, E>>
  /** Bytes of its events that wait. */
  waitingBytes: number
  /** Its lanes that wait for something which should come soon. */
  waitingLanes: number
  /** Its accounts are those of many hosts, so none of them stops it because its lane fills up. Default: false. */
  readonly isShared?: boolean
  /** The lane that stops it from being read, because it fills up; and when one did last, in milliseconds since 1970. */
  crowdedBy: Lane<S, E> | undefined
  crowdedAtMs: number
}

/** The events of one account from one source, in the order in which they came. It exists while there are any. */
export interface Lane<S, E> {
  readonly source: S
  readonly did: Did
  /** Events that have not started, oldest first. */
  waiting: E[]
  /** Events that came back to be started again, oldest first. Nothing else starts while there are any. */
  returned: E[]
  /** Events that were started, and are away. */
  away: number
  /** Bytes of `waiting` and `returned`. */
  bytes: number
  /** What the head waits for. Undefined when it does not, or waits for those that are away. */
  wait: AbortController | undefined
  /** It has started as many as may start in one turn of the event loop, and goes on in the next one. */
  isPausing: boolean
  /** Whether `waitingLanes` of its source counts it. */
  isCounted: boolean
  /** It has stopped its source because it fills up, and does not again: what it waits for takes long. */
  hasCrowded: boolean
  /** Nothing of it is left: another lane has taken its place, or will. */
  isOver: boolean
}

/** What something outside takes. It must not reject, and it should end soon after the signal is aborted. */
export type Wait = (signal: AbortSignal) => Promise<unknown>

/**
 * What came of starting the head of a lane. `done`: nothing is left to do. `away`: it is somewhere else, from where
 * `settle` or `giveBack` tells of it. `after-those-away`: it can start only when nothing of the lane is away. A wait: it
 * is started again when that is over. The wait begins when nothing of the lane is away.
 */
export type Outcome = 'done' | 'away' | 'after-those-away' | Wait
