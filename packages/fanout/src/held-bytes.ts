import type { FanoutGroup } from './fanout-group.ts'
import type { Subscriber } from './subscriber.ts'

/**
 * What sockets of consumers keep in memory because they have not taken it. A write is kept whole until its last byte is
 * taken. What was read for one reader that is behind is its own. What was flushed to live readers is shared by all that
 * stopped at the same position.
 */
export class HeldBytes {
  readonly #own = new Map<Subscriber, number>()
  #ownSum = 0

  /** Bytes that readers hold each for itself. */
  get own(): number {
    return this.#ownSum
  }

  /** Looks again at what a reader holds of what was read for it. */
  note(subscriber: Subscriber): void {
    const before = this.#own.get(subscriber) ?? 0
    const isOwn = subscriber.state === 'behind' || subscriber.state === 'draining'
    const now = isOwn ? subscriber.heldBytes : 0
    this.#ownSum += now - before
    if (now > 0) this.#own.set(subscriber, now)
    else this.#own.delete(subscriber)
  }

  /** Looks again at all readers, which may have taken much since each was looked at. */
  noteAgain(): void {
    for (const subscriber of this.#own.keys()) this.note(subscriber)
  }

  /** The reader is gone, and what it held with it. */
  forget(subscriber: Subscriber): void {
    this.#ownSum -= this.#own.get(subscriber) ?? 0
    this.#own.delete(subscriber)
  }

  /** Everything that is held, shared bytes counted once. It looks at every consumer. */
  all(subscribers: Iterable<Subscriber>): number {
    const shared = new Map<FanoutGroup, Map<number, number>>()
    let sum = this.#ownSum
    for (const subscriber of subscribers) {
      const { group, position, heldBytes } = subscriber
      if (heldBytes === 0 || this.#own.has(subscriber)) continue
      const byPosition = shared.get(group) ?? new Map<number, number>()
      shared.set(group, byPosition)
      const before = byPosition.get(position) ?? 0
      sum += Math.max(0, heldBytes - before)
      byPosition.set(position, Math.max(before, heldBytes))
    }
    return sum
  }
}

/** Of the network that holds most, the consumer that holds most. Undefined when nobody holds anything. */
export function largestHolder(
  subscribers: Iterable<Subscriber>,
  networkOf: (address: string) => string,
): Subscriber | undefined {
  const networks = new Map<string, { bytes: number; largest: Subscriber }>()
  for (const subscriber of subscribers) {
    const { heldBytes, connection, state } = subscriber
    if (heldBytes === 0 || state === 'closed') continue
    const network = networkOf(connection.remoteAddress)
    const { bytes, largest } = networks.get(network) ?? { bytes: 0, largest: subscriber }
    networks.set(network, {
      bytes: bytes + heldBytes,
      largest: heldBytes > largest.heldBytes ? subscriber : largest,
    })
  }
  const [most] = [...networks.values()].toSorted((a, b) => b.bytes - a.bytes)
  return most?.largest
}
