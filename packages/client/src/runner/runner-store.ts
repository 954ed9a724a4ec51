import type { ClientEvent } from '../batch.ts'
import type { CursorStore } from '../checkpoint.ts'
import { CursorStoreError } from '../errors.ts'
import { isObject } from '../json.ts'

/**
 * Why an event was parked. `handler-failed`: its handler failed at every attempt. `after-parked`: an earlier event of the same
 * record, or of its account, is parked.
 */
export type ParkReason = 'after-parked' | 'handler-failed'

/** An event that could not be handled, kept until it is. */
export interface ParkedEvent {
  event: ClientEvent
  reason: ParkReason
  /** How often a handler was called with it, over all runs. */
  attempts: number
  /** What the handler threw at the last attempt, or which event it comes after. */
  detail: string
}

/** What a runner remembers over a restart: its cursor, and the events that it parked. */
export interface RunnerStore extends CursorStore {
  /** Everything that is parked, in the order of seq. */
  parked(): Promise<ParkedEvent[]>
  /** Resolves once the event is durable. An event that is parked already is replaced. */
  park(parked: ParkedEvent): Promise<void>
  /** Forgets a parked event. */
  unpark(seq: number): Promise<void>
}

/** Whose cursor it is, in a database. */
export interface StoreOptions {
  /** The address that the cursor belongs to: sequence numbers of one server mean nothing to another. */
  server: string
  /** Each name has a cursor and parked events of its own. Default: `default`. */
  consumer?: string
}

/** Remembers nothing over a restart: for tests, and for what begins from the start each time. */
export class MemoryStore implements RunnerStore {
  #cursor: number | undefined
  readonly #parked = new Map<number, ParkedEvent>()

  async load(): Promise<number | undefined> {
    return this.#cursor
  }

  async save(cursor: number): Promise<void> {
    this.#cursor = Math.max(this.#cursor ?? 0, cursor)
  }

  async parked(): Promise<ParkedEvent[]> {
    return inSeqOrder(this.#parked.values())
  }

  async park(parked: ParkedEvent): Promise<void> {
    this.#parked.set(parked.event.seq, parked)
  }

  async unpark(seq: number): Promise<void> {
    this.#parked.delete(seq)
  }
}

export function inSeqOrder(parked: Iterable<ParkedEvent>): ParkedEvent[] {
  return [...parked].toSorted((one, other) => one.event.seq - other.event.seq)
}

/** Whether a value that was stored as JSON is a parked event. The event itself is as it was when it was stored. */
export function isParkedEvent(value: unknown): value is ParkedEvent {
  if (!isObject(value) || !isObject(value['event'])) return false
  const { seq, did, kind } = value['event']
  return typeof seq === 'number' && typeof did === 'string' && typeof kind === 'string'
}

/** @throws CursorStoreError when the text of a parked event is damaged. */
export function parkedOf(text: string): ParkedEvent {
  const parked = readParked(text)
  if (parked === undefined) throw new CursorStoreError('a row of tributary_parked is damaged')
  return parked
}

function readParked(text: string): ParkedEvent | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isParkedEvent(value) ? value : undefined
  } catch {
    return undefined
  }
}

export function anotherServer(found: string, expected: string): string {
  return `tributary_cursor holds a cursor of ${found}, not of ${expected}; use another name of a consumer, or remove the row`
}
