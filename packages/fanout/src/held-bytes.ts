import type { Subscriber } from './subscriber.ts'

interface Holding {
  /** Bytes of earlier writes, and of a last one that was in several pieces. */
  own: number
  /** Bytes of the last write, and the memory that they are in. */
  shared: number
  memory: ArrayBufferLike | undefined
}

/** Memory that last writes are in. */
interface Piece {
  /** Bytes that consumers need of it, added up. */
  needed: number
  /** Its size when it was written. Memory that was read for one consumer is freed, and has none, before it is looked at again. */
  readonly bytes: number
}

/**
 * What sockets of consumers keep in memory because they have not taken it. A write is kept whole until its last byte is
 * taken. The same memory may be written to thousands: it counts once, however many of them still need it.
 */
export class HeldBytes {
  readonly #holdings = new Map<Subscriber, Holding>()
  readonly #pieces = new Map<ArrayBufferLike, Piece>()
  #sum = 0

  /** Bytes that all consumers hold together. */
  get sum(): number {
    return this.#sum
  }

  /**
   * Looks at what a consumer holds.
   * @param frames what was just written to it. Default: nothing was since the last look.
   */
  note(subscriber: Subscriber, frames?: readonly Uint8Array[]): void {
    const before = this.#holdings.get(subscriber)
    const { heldBytes: bytes } = subscriber
    if (bytes === 0) return this.forget(subscriber)
    if (before) this.#add(before, -1)
    const last = frames ? lastOf(frames) : before
    const shared = Math.min(bytes, last?.shared ?? 0)
    const holding = { own: bytes - shared, shared, memory: last?.memory }
    this.#holdings.set(subscriber, holding)
    this.#add(holding, 1)
  }

  /** Looks again at all consumers, which may have taken much since each was looked at. */
  noteAgain(): void {
    for (const subscriber of this.#holdings.keys()) this.note(subscriber)
  }

  /** The consumer is gone, and what it held with it. */
  forget(subscriber: Subscriber): void {
    const holding = this.#holdings.get(subscriber)
    this.#holdings.delete(subscriber)
    if (holding) this.#add(holding, -1)
  }

  /**
   * The largest holder of the network that holds most. Undefined when nobody holds anything. A consumer that was ended, and may
   * read why, is no exception: others would have to go for what it holds.
   */
  largest(networkOf: (address: string) => string): Subscriber | undefined {
    const networks = new Map<string, { bytes: number; largest: Subscriber; most: number }>()
    for (const [subscriber, holding] of this.#holdings) {
      const own = this.#partOf(holding)
      const network = networkOf(subscriber.connection.remoteAddress)
      const { bytes, largest, most } = networks.get(network) ?? { bytes: 0, largest: subscriber, most: 0 }
      const isLargest = own > most
      networks.set(network, {
        bytes: bytes + own,
        largest: isLargest ? subscriber : largest,
        most: isLargest ? own : most,
      })
    }
    const [most] = [...networks.values()].toSorted((a, b) => b.bytes - a.bytes)
    return most?.largest
  }

  /** Bytes that a consumer holds. Memory that it shares counts by its part of it. */
  #partOf({ own, shared, memory }: Holding): number {
    const piece = memory && this.#pieces.get(memory)
    return piece ? own + shared * Math.min(1, piece.bytes / piece.needed) : own
  }

  #add({ own, shared, memory }: Holding, sign: 1 | -1): void {
    this.#sum += sign * own
    if (!memory) return
    const piece = this.#pieces.get(memory) ?? { needed: 0, bytes: memory.byteLength }
    const before = piece.needed
    piece.needed += sign * shared
    this.#sum += Math.min(piece.needed, piece.bytes) - Math.min(before, piece.bytes)
    if (piece.needed > 0) this.#pieces.set(memory, piece)
    else this.#pieces.delete(memory)
  }
}

/** The last write, if it was one piece. */
function lastOf(frames: readonly Uint8Array[]): Pick<Holding, 'shared' | 'memory'> | undefined {
  const [frame] = frames
  return frame && frames.length === 1 ? { shared: frame.length, memory: frame.buffer } : undefined
}
