/**
 * The events that wait for one verifying thread, and the batches that are made of them. Sources take turns, an event
 * each, so that an event waits for few others whatever the other sources send. Events of one source, and so those of an
 * account, stay in order.
 *
 * Each event is copied once, to where it waits. While one source alone has events there, as in a flood, or while all that
 * waits fits a batch, that memory is the batch. Otherwise a batch is copied out of it.
 */
import type { Lane } from '@tributary/lanes'
import type { SigningKey } from '@tributary/repo-verify'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'

export type EventLane = Lane<Source, UpstreamEvent>

export interface Item {
  event: UpstreamEvent
  lane: EventLane
  key: SigningKey
  isStrict: boolean
}

/** Messages one after the other, with room for their verdicts after them. */
export interface Batch {
  buffer: Buffer
  /** Bytes of all messages. */
  length: number
  /** Where each message ends. */
  ends: number[]
  items: Item[]
}

/** Most events of a batch. */
export const batchEventsMax = 64
const batchBytes = 256 * 1024
/** Room for the verdicts of a batch: most take some 200 bytes. */
const verdictBytes = 32 * 1024
const sparesMax = 8
/** Events that were taken from the front of a list before it is made shorter. */
const takenMax = 1024

/** Where events wait, as a batch that may be sent as it is while none of them was taken. */
interface Store extends Batch {
  /** Events that were not taken. */
  left: number
}

interface Waiting {
  store: Store
  index: number
}

/** Events of one source, the oldest first. Those below `taken` are gone. */
interface SourceQueue {
  waiting: Waiting[]
  taken: number
}

export class VerifyQueue {
  /** In the order in which they were begun. Events are added to the last one. */
  readonly #stores = new Set<Store>()
  #open: Store | undefined
  /** Sources with events that wait, the next first. */
  readonly #sources = new Map<Source, SourceQueue>()
  readonly #spares: Buffer[] = []
  #size = 0
  #bytes = 0

  /** Events that wait. */
  get size(): number {
    return this.#size
  }

  /** Bytes of the events that wait. */
  get bytes(): number {
    return this.#bytes
  }

  /** Puts a copy of an event at the end. */
  add(item: Item): void {
    const { source, message } = item.event
    const store = this.#storeFor(message.bytes.length)
    const queue = this.#sources.get(source) ?? { waiting: [], taken: 0 }
    this.#sources.set(source, queue)
    queue.waiting.push({ store, index: store.items.length })
    append(store, message.bytes, item)
    store.left++
    this.#size++
    this.#bytes += message.bytes.length
  }

  /** The next batch, of so many events at most. Undefined when nothing waits. */
  take(eventsMax: number): Batch | undefined {
    const [store] = this.#stores
    if (!store) return undefined
    const isWhole = store.left === store.items.length && store.left <= eventsMax
    if (isWhole && (this.#stores.size === 1 || this.#sources.size === 1)) return this.#takeStore(store)
    return this.#takeInTurns(eventsMax)
  }

  /** Takes a buffer back whose batch is done. */
  giveBack(buffer: Buffer): void {
    if (buffer.length === batchBytes && this.#spares.length < sparesMax) this.#spares.push(buffer)
  }

  /** Takes a store whole. It holds everything, or events of the only source. */
  #takeStore(store: Store): Batch {
    this.#leave(store)
    this.#size -= store.left
    this.#bytes -= store.length
    for (const [source, queue] of this.#sources)
      if (this.#stores.size === 0) this.#sources.delete(source)
      else this.#drop(source, queue, store.left)
    return store
  }

  #takeInTurns(eventsMax: number): Batch {
    let batch: Batch | undefined
    for (const [source, queue] of this.#sources) {
      const { store, index } = queue.waiting[queue.taken] as Waiting // a source here has some
      const bytes = store.buffer.subarray(store.ends[index - 1] ?? 0, store.ends[index])
      batch ??= this.#newBatch(bytes.length)
      if (!hasRoom(batch, bytes.length)) break
      append(batch, bytes, store.items[index] as Item) // it has one for each end
      this.#size--
      this.#bytes -= bytes.length
      if (--store.left === 0) {
        this.#leave(store)
        this.giveBack(store.buffer)
      }
      // It comes after all others: a map is walked in the order of entry.
      this.#sources.delete(source)
      this.#drop(source, queue, 1)
      if (batch.items.length >= eventsMax) break
    }
    return batch as Batch // something waits
  }

  /** Takes events from the front of a source's queue. */
  #drop(source: Source, queue: SourceQueue, count: number): void {
    queue.taken += count
    if (queue.taken === queue.waiting.length) {
      this.#sources.delete(source)
      return
    }
    if (queue.taken > takenMax) {
      queue.waiting = queue.waiting.slice(queue.taken)
      queue.taken = 0
    }
    this.#sources.set(source, queue)
  }

  /** Where the next event of so many bytes waits. */
  #storeFor(length: number): Store {
    if (this.#open && this.#open.items.length < batchEventsMax && hasRoom(this.#open, length))
      return this.#open
    this.#open = { ...this.#newBatch(length), left: 0 }
    this.#stores.add(this.#open)
    return this.#open
  }

  #leave(store: Store): void {
    this.#stores.delete(store)
    if (this.#open === store) this.#open = undefined
  }

  #newBatch(length: number): Batch {
    const buffer =
      length > batchBytes - verdictBytes
        ? Buffer.allocUnsafeSlow(length + verdictBytes)
        : (this.#spares.pop() ?? Buffer.allocUnsafeSlow(batchBytes))
    return { buffer, length: 0, ends: [], items: [] }
  }
}

function hasRoom(batch: Batch, length: number): boolean {
  return batch.length + length <= batch.buffer.length - verdictBytes
}

function append(batch: Batch, bytes: Uint8Array, item: Item): void {
  batch.buffer.set(bytes, batch.length)
  batch.length += bytes.length
  batch.ends.push(batch.length)
  batch.items.push(item)
}
