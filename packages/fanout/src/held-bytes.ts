import type { Subscriber } from './subscriber.ts'

interface Holding {
  /** Bytes of earlier writes, and of a last one that was in several pieces. */
  own: number
  /** Bytes of the last write, and the memory that they are in. */
  shared: number
  memory: ArrayBufferLike | undefined
}

/**
 * What sockets of consumers keep in memory because they have not taken it. A write is kept whole until its last byte is
 * taken. The same memory may be written to thousands: it counts once, however many of them still need it.
 */
export class HeldBytes {
  readonly #holdings = new Map<Subscriber, Holding>()
  /** Bytes that consumers need of each piece of memory, added up. */
  readonly #needed = new Map<ArrayBufferLike, number>()
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

  /** The largest holder of the network that holds most. Undefined when nobody holds anything. */
  largest(networkOf: (address: string) => string): Subscriber | undefined {
    const networks = new Map<string, { bytes: number; largest: Subscriber; most: number }>()
    for (const [subscriber, holding] of this.#holdings) {
      if (subscriber.state === 'closed') continue
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
    const needed = memory && this.#needed.get(memory)
    return needed ? own + shared * Math.min(1, memory.byteLength / needed) : own
  }

  #add({ own, shared, memory }: Holding, sign: 1 | -1): void {
    this.#sum += sign * own
    if (!memory) return
    const before = this.#needed.get(memory) ?? 0
    const now = before + sign * shared
    this.#sum += Math.min(now, memory.byteLength) - Math.min(before, memory.byteLength)
    if (now > 0) this.#needed.set(memory, now)
    else this.#needed.delete(memory)
  }
}

/** The last write, if it was one piece. */
function lastOf(frames: readonly Uint8Array[]): Pick<Holding, 'shared' | 'memory'> | undefined {
  const [frame] = frames
  return frame && frames.length === 1 ? { shared: frame.length, memory: frame.buffer } : undefined
}
