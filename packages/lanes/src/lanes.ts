/**
 * The order of each account: events that one source sent of it start one after the other, in the order in which they
 * came, whatever waits or is tried again. Lanes of different accounts, and of different sources, never wait for each
 * other. A lane holds events only while its head has to wait, and then copies of their bytes, within bounds.
 */
import { setImmediate } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { systemClock, type Clock } from './clock.ts'
import type { Lane, LaneEvent, LaneSource, Outcome } from './lane.ts'

/** Bounds on what may wait. An event beyond them is not held. */
export interface LaneLimits {
  eventsPerLane: number
  bytesPerLane: number
  bytesPerSource: number
  /** Bytes of all sources together. A source that holds less than `bytesAlways` may go beyond. */
  bytes: number
  bytesAlways: number
  /**
   * Lanes of a source that wait for something which should come soon: from `high` on the source should not be read,
   * until fewer than `low` wait.
   */
  lanesPerSource: { high: number; low: number }
  /** How long something should take that comes soon. A lane that waits for longer does not stop its source. */
  soonMs: number
  /**
   * A single lane that waits stops its source when it has filled a `share` of its bounds, so that a burst is not left
   * out: for `msMax` at most, once until it is empty, and one lane of a source in `everyMs`.
   */
  crowded: { share: number; msMax: number; everyMs: number }
}

export interface LaneWork<S, E> {
  /** Starts or finishes an event. It must not throw. */
  start: (event: E, lane: Lane<S, E>) => Outcome
  /** The bounds leave no room for an event: it is not held. */
  onFull: (event: E, lane: Lane<S, E>) => void
  /** Whether so much of a source waits that it should not be read. */
  onPaused: (source: S, isPaused: boolean) => void
}

/** Events of a lane that start in one turn of the event loop. Some programs verify each of them there and then. */
const startedAtOnce = 16
/**
 * Bytes that an account gives up at a time for others of its source, so that this is not done for each event. Leaving out
 * an event may take a tenth of a millisecond.
 */
const roomMade = { bytes: 256 * 1024, eventsMax: 64 }
/**
 * Lanes of a source that are looked at for it: some ten microseconds for an event. A lane that holds this part of what its
 * source may hold is large, so there are no more large lanes than this.
 */
const lanesLookedAtMax = 1000
/** The reason with which a wait is aborted. Without one Node would make an error with a stack for each wait. */
const waitIsOver = 'the wait is over'

export class Lanes<S extends LaneSource<S, E>, E extends LaneEvent> {
  readonly #limits: LaneLimits
  readonly #work: LaneWork<S, E>
  readonly #clock: Clock
  /** Lanes in which something waits. */
  readonly #waiting = new Set<Lane<S, E>>()
  /** Sources that should not be read. */
  readonly #paused = new Set<S>()
  #bytes = 0
  #isClosed = false

  constructor(limits: LaneLimits, work: LaneWork<S, E>, clock: Clock = systemClock) {
    this.#limits = limits
    this.#work = work
    this.#clock = clock
  }

  /** Bytes of all events that wait. */
  get bytes(): number {
    return this.#bytes
  }

  /** How many events wait, in how many lanes, and how many in the longest. */
  depth(): { lanes: number; events: number; eventsMax: number } {
    let events = 0
    let eventsMax = 0
    for (const { waiting, returned } of this.#waiting) {
      const own = waiting.length + returned.length
      events += own
      eventsMax = Math.max(eventsMax, own)
    }
    return { lanes: this.#waiting.size, events, eventsMax }
  }

  /** Puts an event at the end of its lane, and starts it if nothing is before it. */
  enter(source: S, did: Did, event: E): void {
    let lane = source.lanes.get(did)
    if (!lane) source.lanes.set(did, (lane = newLane<S, E>(source, did)))
    if (lane.waiting.length > 0 || this.#isClosed) this.#hold(event, lane, lane.waiting)
    else {
      const outcome = lane.returned.length > 0 ? 'after-those-away' : this.#work.start(event, lane)
      if (outcome === 'away') lane.away++
      else if (outcome !== 'done' && this.#hold(event, lane, lane.waiting)) this.#await(lane, outcome)
    }
    this.#endIfEmpty(lane)
  }

  /** An event that was away is done. */
  settle(lane: Lane<S, E>): void {
    lane.away--
    if (lane.away === 0) this.#run(lane)
  }

  /** An event that was away has to be started again, before all that have not started yet. */
  giveBack(event: E, lane: Lane<S, E>, bytes: Buffer): void {
    event.message.bytes = bytes
    this.#hold(event, lane, lane.returned)
    this.settle(lane)
  }

  /** Whether an event that was started must start again because one before it does. */
  mustFollow(lane: Lane<S, E>): boolean {
    return lane.returned.length > 0
  }

  /** Takes the event away that is first in its lane and waits. False when it does not. Those after it go on. */
  drop(event: E, lane: Lane<S, E>): boolean {
    if (lane.away > 0 || lane.waiting[0] !== event) return false
    this.#endWait(lane)
    this.#takeHead(lane)
    this.#run(lane)
    return true
  }

  /**
   * Takes the head away of the lane in which something has waited for the longest time. Undefined when nothing does. The
   * head of a lane that goes on in the next turn of the event loop waits for nothing, and is done soon.
   */
  dropLongest(): E | undefined {
    for (const lane of this.#waiting) {
      const [head] = lane.waiting
      if (head && !lane.isPausing && this.drop(head, lane)) return head
    }
    return undefined
  }

  /** Does not let a lane stop its source: what it waits for may take long. */
  discount(lane: Lane<S, E>): void {
    if (!lane.isCounted) return
    lane.isCounted = false
    lane.source.waitingLanes--
    this.#checkPause(lane.source)
  }

  /**
   * Hands events that wait, wherever they stand in their lane, to `onFull`. The others keep their order and go on.
   * @returns how many there were.
   */
  makeRoom(lane: Lane<S, E>, mayGo: (event: E) => boolean): number {
    const { true: going = [], false: staying = [] } = Object.groupBy(
      lane.waiting,
      (event) => `${mayGo(event)}`,
    )
    if (going[0] && going[0] === lane.waiting[0]) this.#endWait(lane)
    lane.waiting = staying
    for (const event of going) {
      this.#addBytes(lane, -event.message.bytes.length)
      this.#work.onFull(event, lane)
    }
    if (staying.length + lane.returned.length === 0) this.#waiting.delete(lane)
    this.#run(lane)
    return going.length
  }

  /** Nothing starts any more: what waits is read again from its source after the next start. */
  close(): void {
    this.#isClosed = true
    for (const lane of this.#waiting) lane.wait?.abort()
  }

  /** Starts what can start, from the head. */
  #run(lane: Lane<S, E>): void {
    if (this.#isClosed || lane.isOver || lane.wait) return
    if (lane.away === 0 && lane.returned.length > 0) {
      lane.waiting = [...lane.returned, ...lane.waiting]
      lane.returned = []
    }
    let left = startedAtOnce
    for (let head = lane.waiting[0]; head && lane.returned.length === 0; head = lane.waiting[0]) {
      // A lane that is crowded stays so until it has gone on, or the source would fill it faster than that.
      if (left-- === 0) {
        lane.isPausing = true
        return this.#await(lane, () => setImmediate())
      }
      const held = head.message.bytes.length
      const outcome = this.#work.start(head, lane)
      if (outcome !== 'done' && outcome !== 'away') {
        this.#endCrowd(lane)
        return this.#await(lane, outcome)
      }
      this.#takeHead(lane, held)
      if (outcome === 'away') lane.away++
    }
    this.#endCrowd(lane)
    this.#endIfEmpty(lane)
  }

  #await(lane: Lane<S, E>, wait: Exclude<Outcome, 'done' | 'away'>): void {
    // An event that is away may come back. It must not wait for what a later event waits for.
    if (wait === 'after-those-away' || (lane.away > 0 && !lane.isPausing)) return
    const controller = new AbortController()
    lane.wait = controller
    this.#expectSoon(lane)
    const over = (): void => {
      if (lane.wait !== controller) return
      this.#endWait(lane)
      this.#run(lane)
    }
    void wait(controller.signal).then(over)
  }

  #endWait(lane: Lane<S, E>): void {
    lane.wait?.abort(waitIsOver)
    lane.wait = undefined
    lane.isPausing = false
    this.discount(lane)
  }

  /** What a lane waits for should come soon. */
  #expectSoon(lane: Lane<S, E>): void {
    const { wait, source } = lane
    lane.isCounted = true
    source.waitingLanes++
    this.#clock.after(this.#limits.soonMs, () => lane.wait === wait && this.discount(lane))
    this.#checkPause(source)
  }

  #checkCrowd(lane: Lane<S, E>): void {
    const { crowded, eventsPerLane, bytesPerLane } = this.#limits
    const { source, waiting, bytes, wait } = lane
    const isCrowded = waiting.length >= eventsPerLane * crowded.share || bytes >= bytesPerLane * crowded.share
    if (!isCrowded || !wait || lane.hasCrowded || source.crowdedBy || source.isShared) return
    const nowMs = this.#clock.nowMs()
    const sinceMs = nowMs - source.crowdedAtMs
    // Below 0 the clock was set back.
    if (sinceMs >= 0 && sinceMs < crowded.everyMs) return
    source.crowdedBy = lane
    lane.hasCrowded = true
    source.crowdedAtMs = nowMs
    this.#clock.after(crowded.msMax, () => lane.wait === wait && this.#endCrowd(lane))
    this.#checkPause(source)
  }

  #endCrowd(lane: Lane<S, E>): void {
    if (lane.source.crowdedBy === lane) lane.source.crowdedBy = undefined
    this.#checkPause(lane.source)
  }

  #checkPause(source: S): void {
    const { high, low } = this.#limits.lanesPerSource
    const isPaused = this.#paused.has(source)
    const mustPause = source.crowdedBy !== undefined || source.waitingLanes >= (isPaused ? low : high)
    if (mustPause === isPaused) return
    if (mustPause) this.#paused.add(source)
    else this.#paused.delete(source)
    this.#work.onPaused(source, mustPause)
  }

  /** Keeps an event's bytes beyond the call that brought them. False when there is no room. */
  #hold(event: E, lane: Lane<S, E>, queue: E[]): boolean {
    const { length } = event.message.bytes
    // What comes back from a thread was let in before.
    if (queue === lane.waiting && !this.#hasRoom(lane, length) && !this.#makeRoomFor(lane, length)) {
      this.#work.onFull(event, lane)
      return false
    }
    event.message.bytes = ownCopy(event.message.bytes)
    queue.push(event)
    this.#addBytes(lane, length)
    this.#waiting.add(lane)
    this.#checkCrowd(lane)
    return true
  }

  #hasRoom(lane: Lane<S, E>, length: number): boolean {
    const { bytesPerSource, bytesAlways } = this.#limits
    const ofSource = lane.source.waitingBytes + length
    const hasShare = ofSource <= bytesAlways || this.#bytes + length <= this.#limits.bytes
    return this.#hasOwnRoom(lane, length) && ofSource <= bytesPerSource && hasShare
  }

  #hasOwnRoom({ waiting, bytes }: Lane<S, E>, length: number): boolean {
    const { eventsPerLane, bytesPerLane } = this.#limits
    return waiting.length < eventsPerLane && bytes + length <= bytesPerLane
  }

  /**
   * Leaves out the newest events of the lane in which most bytes of the source wait, if these are more than those of this
   * lane with the event: few accounts do not take the room of all others, and cannot hide among many that hold little.
   * @returns whether there is room for the event now.
   */
  #makeRoomFor(lane: Lane<S, E>, length: number): boolean {
    if (!this.#hasOwnRoom(lane, length)) return false
    let [most, bytesMax] = [lane, lane.bytes + length]
    const { lanes, largeLanes } = lane.source
    for (const others of [largeLanes.values(), lanes.values()]) {
      for (const other of others.take(lanesLookedAtMax))
        // What waits for its turn, or for threads, is done soon.
        if (other.wait && !other.isPausing && other.bytes > bytesMax) [most, bytesMax] = [other, other.bytes]
      if (most !== lane) break
    }
    if (most === lane) return false
    const going = new Set<E>()
    let left = Math.max(length, roomMade.bytes)
    for (const event of most.waiting.slice(-roomMade.eventsMax).toReversed()) {
      if (left <= 0) break
      going.add(event)
      left -= event.message.bytes.length
    }
    this.makeRoom(most, (event) => going.has(event))
    return this.#hasRoom(lane, length)
  }

  /** @param held bytes that the event took while it waited. Starting it may have taken them off it. */
  #takeHead(lane: Lane<S, E>, held: number = lane.waiting[0]?.message.bytes.length ?? 0): void {
    lane.waiting.shift()
    this.#addBytes(lane, -held)
    if (lane.waiting.length + lane.returned.length === 0) this.#waiting.delete(lane)
  }

  #addBytes(lane: Lane<S, E>, bytes: number): void {
    lane.bytes += bytes
    lane.source.waitingBytes += bytes
    this.#bytes += bytes
    const isLarge = lane.bytes >= this.#limits.bytesPerSource / lanesLookedAtMax
    lane.source.largeLanes[isLarge ? 'add' : 'delete'](lane)
  }

  #endIfEmpty(lane: Lane<S, E>): void {
    if (lane.away + lane.waiting.length + lane.returned.length > 0 || lane.isOver) return
    lane.isOver = true
    lane.source.lanes.delete(lane.did)
  }
}

/** A copy in memory of its own. In Node's pool of 64 kB it would keep all of the pool for as long as it waits. */
function ownCopy(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  copy.set(bytes)
  return copy
}

function newLane<S, E>(source: S, did: Did): Lane<S, E> {
  return {
    source,
    did,
    waiting: [],
    returned: [],
    away: 0,
    bytes: 0,
    wait: undefined,
    isPausing: false,
    isCounted: false,
    hasCrowded: false,
    isOver: false,
  }
}
