/**
 * The events that wait for one verifying thread, and the batches that are made of them. Sources take turns, an event
 * each, so that an event waits for few others whatever the other sources send. Events of one source, and so those of an
 * account, stay in order.
 *
 * Each event is copied once, to where it waits. While one source alone has events there, as in a flood, or while all that
 * waits fits a batch, that memory is the batch. Otherwise a batch is copied out of it.
 */
import type { SigningKey } from '@tributary/repo-verify'

/** An event, as far as verification looks at it. */
export interface VerifiableEvent {
  /** Where it came from. Only told apart from others. */
  readonly source: object
  /** Its bytes are taken away while it waits for its verdict. */
  readonly message: { bytes: Buffer }
}

export interface Item<E, L> {
  event: E
  /** Is handed back with the verdict. */
  lane: L
  /** Undefined when the account has none. */
  key: SigningKey | undefined
  isStrict: boolean
}

/** Messages one after the other, with room for their verdicts after them. */
export interface Batch<E, L> {
  buffer: Buffer
  /** Bytes of all messages. */
  length: number
  /** Where each message ends. */
  ends: number[]
  items: Item<E, L>[]
}

/** Most events of a batch. */
export const batchEventsMax = 64
export const batchBytes: number = 256 * 1024
/** Room for the verdicts of a batch: most take some 200 bytes. */
export const verdictBytes: number = 32 * 1024
const sparesMax = 8
/** Events that were taken from the front of a list before it is made shorter. */
const takenMax = 1024

/** Where events wait, as a batch that may be sent as it is while none of them was taken. */
interface Store<E, L> extends Batch<E, L> {
  /** Events that were not taken. */
  left: number
}

interface Waiting<E, L> {
  store: Store<E, L>
  index: number
}

/** Events of one source, the oldest first. Those below `taken` are gone. */
interface SourceQueue<E, L> {
  waiting: Waiting<E, L>[]
  taken: number
}

export class VerifyQueue<E extends VerifiableEvent, L> {
  /** In the order in which they were begun. Events are added to the last one. */
  readonly #stores = new Set<Store<E, L>>()
  #open: Store<E, L> | undefined
  /** Sources with events that wait, the next first. */
  readonly #sources = new Map<object, SourceQueue<E, L>>()
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
  add(item: Item<E, L>): void {
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
  take(eventsMax: number): Batch<E, L> | undefined {
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
  #takeStore(store: Store<E, L>): Batch<E, L> {
    this.#leave(store)
    this.#size -= store.left
    this.#bytes -= store.length
    for (const [source, queue] of this.#sources)
      if (this.#stores.size === 0) this.#sources.delete(source)
      else this.#drop(source, queue, store.left)
    return store
  }

  #takeInTurns(eventsMax: number): Batch<E, L> {
    let batch: Batch<E, L> | undefined
    for (const [source, queue] of this.#sources) {
      const { store, index } = queue.waiting[queue.taken] as Waiting<E, L> // a source here has some
      const bytes = store.buffer.subarray(store.ends[index - 1] ?? 0, store.ends[index])
      batch ??= this.#newBatch(bytes.length)
      if (!hasRoom(batch, bytes.length)) break
      append(batch, bytes, store.items[index] as Item<E, L>) // it has one for each end
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
    return batch as Batch<E, L> // something waits
  }

  /** Takes events from the front of a source's queue. */
  #drop(source: object, queue: SourceQueue<E, L>, count: number): void {
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
  #storeFor(length: number): Store<E, L> {
    if (this.#open && this.#open.items.length < batchEventsMax && hasRoom(this.#open, length))
      return this.#open
    this.#open = { ...this.#newBatch(length), left: 0 }
    this.#stores.add(this.#open)
    return this.#open
  }

  #leave(store: Store<E, L>): void {
    this.#stores.delete(store)
    if (this.#open === store) this.#open = undefined
  }

  #newBatch(length: number): Batch<E, L> {
    const buffer =
      length > batchBytes - verdictBytes
        ? Buffer.allocUnsafeSlow(length + verdictBytes)
        : (this.#spares.pop() ?? Buffer.allocUnsafeSlow(batchBytes))
    return { buffer, length: 0, ends: [], items: [] }
  }
}

function hasRoom<E, L>(batch: Batch<E, L>, length: number): boolean {
  return batch.length + length <= batch.buffer.length - verdictBytes
}

function append<E, L>(batch: Batch<E, L>, bytes: Uint8Array, item: Item<E, L>): void {
  batch.buffer.set(bytes, batch.length)
  batch.length += bytes.length
  batch.ends.push(batch.length)
  batch.items.push(item)
}
