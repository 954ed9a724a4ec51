/**
 * Who may ask a host next. Items wait until they are due, and then for places: some for each host, some for each cause,
 * some for all. Free places go round: from cause to cause, and for one cause from host to host.
 *
 * Always holds: a host that does not answer holds up only what waits for this host, and a cause that brings in many
 * items holds up only its own. A few hosts that answer slowly do not take all places of a cause.
 */
import { DueList } from './due-list.ts'

/** An item that waits. Its cause and host stay as they are from `put` until the item is taken or removed. */
export interface Waiting {
  /** Host of the source whose message made the question necessary. */
  cause: string
  /** Host that is asked. */
  host: string
  /** In milliseconds since 1970. */
  dueMs: number
}

/** How a question ended. `unasked`: its host was not asked at all. */
export type Outcome = 'answered' | 'silent' | 'unasked'

const placesMax = { all: 128, perCause: 16, perHost: 4 }
/** Places of a cause that any host may have. Of the others each host has one at most, and only if it has no place yet. */
const freePerCause = placesMax.perCause / 2
/** How long a silent host is left alone. One question then finds out whether it answers again. */
const restMs = { first: 1000, max: 60_000 }

interface Cause<T> {
  name: string
  underWay: number
  lanes: number
  /** Lanes with items that are due, next first. */
  ready: Set<Lane<T>>
}

interface Host<T> {
  name: string
  underWay: number
  lanes: Set<Lane<T>>
  /** Lanes that wait for a place of this host. */
  parked: Set<Lane<T>>
  /** Questions without an answer since the last answer. */
  silences: number
  silentSinceMs: number
  restsUntilMs: number
  isResting: boolean
}

/** What is due of one cause at one host. It exists while it has items. */
interface Lane<T> {
  key: string
  cause: Cause<T>
  host: Host<T>
  items: Set<T>
}

export class AskQueue<T extends Waiting> {
  readonly #later = new DueList<T>()
  readonly #resting = new DueList<Host<T>>()
  readonly #lanes = new Map<string, Lane<T>>()
  readonly #causes = new Map<string, Cause<T>>()
  readonly #hosts = new Map<string, Host<T>>()
  /** Causes with lanes that are ready, next first. */
  readonly #turns = new Set<Cause<T>>()
  readonly #laneOf = new Map<T, Lane<T>>()
  readonly #underWay = new Map<T, Lane<T>>()

  put(item: T): void {
    this.#later.add(item, item.dueMs)
  }

  /** Takes an item out that waits. False when it does not. */
  remove(item: T): boolean {
    const lane = this.#laneOf.get(item)
    if (!lane) return this.#later.delete(item, item.dueMs)
    this.#takeOut(item, lane)
    return true
  }

  /** Takes out all that is due at a host. */
  removeDue(host: string): T[] {
    const items = [...(this.#hosts.get(host)?.lanes ?? [])].flatMap((lane) => [...lane.items])
    for (const item of items) this.remove(item)
    return items
  }

  /** Gives the next item its places, which it has until `release`. Undefined when none may start now. */
  take(nowMs: number): T | undefined {
    for (let item = this.#later.take(nowMs); item; item = this.#later.take(nowMs)) this.#enter(item)
    for (let host = this.#resting.take(nowMs); host; host = this.#resting.take(nowMs)) {
      host.isResting = false
      this.#wake(host)
      this.#forgetHost(host)
    }
    while (this.#underWay.size < placesMax.all) {
      const cause = first(this.#turns)
      if (!cause) return undefined
      this.#turns.delete(cause)
      const lane = first(cause.ready)
      if (!lane || cause.underWay >= placesMax.perCause) continue
      cause.ready.delete(lane)
      if (cause.ready.size > 0) this.#turns.add(cause)
      const mayHave = cause.underWay < freePerCause || !this.#isUnderWay(lane)
      const item = mayHave && hasPlace(lane.host) ? first(lane.items) : undefined
      if (!item) {
        lane.host.parked.add(lane)
        continue
      }
      cause.underWay++
      lane.host.underWay++
      this.#underWay.set(item, lane)
      this.#takeOut(item, lane)
      if (lane.items.size > 0) this.#file(lane)
      return item
    }
    return undefined
  }

  /** Gives the places of an item back. */
  release(item: T, outcome: Outcome, nowMs: number): void {
    const lane = this.#underWay.get(item)
    if (!lane) return
    this.#underWay.delete(item)
    const { cause, host } = lane
    cause.underWay--
    host.underWay--
    if (outcome === 'answered') host.silences = 0
    else if (outcome === 'silent' && !host.isResting) this.#rest(host, nowMs)
    this.#wake(host)
    if (cause.ready.size > 0) this.#turns.add(cause)
    this.#forgetCause(cause)
    this.#forgetHost(host)
  }

  /** For how long a host has given no answer. 0 when the last question was answered. */
  silentMs(host: string, nowMs: number): number {
    const known = this.#hosts.get(host)
    return known && known.silences > 0 ? nowMs - known.silentSinceMs : 0
  }

  /** The clock was set back by so much: what waits goes on waiting for as long as before. */
  setBack(ms: number, nowMs: number): void {
    for (const item of this.#later.setBack(ms)) item.dueMs -= ms
    this.#resting.setBack(ms)
    // A host that was silent before the clock was ahead has been so since then.
    for (const host of this.#hosts.values()) host.silentSinceMs = Math.min(host.silentSinceMs, nowMs)
  }

  #enter(item: T): void {
    const key = `${item.cause} ${item.host}`
    let lane = this.#lanes.get(key)
    if (!lane) {
      lane = { key, cause: this.#cause(item.cause), host: this.#host(item.host), items: new Set() }
      lane.cause.lanes++
      lane.host.lanes.add(lane)
      this.#lanes.set(key, lane)
    }
    lane.items.add(item)
    this.#laneOf.set(item, lane)
    this.#file(lane)
  }

  /** Whether a host is being asked for a cause. */
  #isUnderWay({ key }: Lane<T>): boolean {
    return this.#underWay.values().some((lane) => lane.key === key)
  }

  #takeOut(item: T, lane: Lane<T>): void {
    const { key, cause, host, items } = lane
    this.#laneOf.delete(item)
    items.delete(item)
    if (items.size > 0) return
    this.#lanes.delete(key)
    cause.lanes--
    cause.ready.delete(lane)
    host.lanes.delete(lane)
    host.parked.delete(lane)
    this.#forgetCause(cause)
    this.#forgetHost(host)
  }

  #file(lane: Lane<T>): void {
    if (lane.host.parked.has(lane)) return
    lane.cause.ready.add(lane)
    this.#turns.add(lane.cause)
  }

  #rest(host: Host<T>, nowMs: number): void {
    if (host.silences === 0) host.silentSinceMs = nowMs
    host.restsUntilMs = nowMs + Math.min(restMs.max, restMs.first * 2 ** host.silences++)
    host.isResting = true
    this.#resting.add(host, host.restsUntilMs)
  }

  #wake(host: Host<T>): void {
    const lanes = [...host.parked]
    host.parked.clear()
    for (const lane of lanes) this.#file(lane)
  }

  #cause(name: string): Cause<T> {
    let cause = this.#causes.get(name)
    if (!cause) {
      cause = { name, underWay: 0, lanes: 0, ready: new Set() }
      this.#causes.set(name, cause)
    }
    return cause
  }

  #host(name: string): Host<T> {
    let host = this.#hosts.get(name)
    if (!host) {
      host = {
        name,
        underWay: 0,
        lanes: new Set(),
        parked: new Set(),
        silences: 0,
        silentSinceMs: 0,
        restsUntilMs: 0,
        isResting: false,
      }
      this.#hosts.set(name, host)
    }
    return host
  }

  #forgetCause(cause: Cause<T>): void {
    if (cause.underWay + cause.lanes > 0) return
    this.#causes.delete(cause.name)
    this.#turns.delete(cause)
  }

  #forgetHost(host: Host<T>): void {
    if (host.underWay + host.lanes.size === 0 && !host.isResting) this.#hosts.delete(host.name)
  }
}

function hasPlace<T>({ underWay, silences, isResting }: Host<T>): boolean {
  return !isResting && underWay < (silences > 0 ? 1 : placesMax.perHost)
}

function first<V>(values: Set<V>): V | undefined {
  return values.values().next().value
}
