import type { Fanout } from '@tributary/fanout'
import type { EventFilter } from '@tributary/protocol'
import { AddressCount, XrpcError } from '@tributary/xrpc'

export interface PlaceLimits {
  subscribersMax: number
  subscribersPerAddressMax: number
  /** Bytes of filters, as `filterBytes` counts them. */
  filterBytesMax: number
  filterBytesPerAddressMax: number
}

/** One subscriber: where it comes from, and what its filter takes. */
export interface PlaceWish {
  address: string
  filterBytes: number
}

/**
 * What a filter takes in memory, beside its texts: for itself, for each DID and for each collection, with their places in
 * the indexes. A collection has a set of filters, and may have two bytes a character.
 */
const overhead = { filter: 1000, did: 68, collection: 400, bytesPerCharacter: 2 }
/** Bytes that each subscriber has for its filter. They do not count, so that there is room for small filters always. */
const ownFilterBytes = 4000

/** Bytes that a filter takes beyond those that each subscriber has. A `did:plc` counts as 100 of them. */
export function filterBytes({ dids = [], collections = [] }: EventFilter): number {
  let bytes = overhead.filter - ownFilterBytes
  for (const did of dids) bytes += overhead.did + did.length
  for (const { length } of collections) bytes += overhead.collection + overhead.bytesPerCharacter * length
  return Math.max(0, bytes)
}

/** Counts subscribers and the bytes of their filters, in all and by address. */
export class SubscriberPlaces {
  readonly #limits: PlaceLimits
  readonly #fanout: Pick<Fanout, 'hasRoomFor' | 'makeRoomFor'>
  readonly #subscribers = new AddressCount()
  readonly #filterBytes = new AddressCount()

  /** @param fanout ends a subscriber for a newcomer when all places are taken. */
  constructor(limits: PlaceLimits, fanout: Pick<Fanout, 'hasRoomFor' | 'makeRoomFor'>) {
    this.#limits = limits
    this.#fanout = fanout
  }

  /** @throws XrpcError 503 `ServiceUnavailable` or 429 `RateLimitExceeded` when there is no place. */
  check({ address, filterBytes: bytes }: PlaceWish): void {
    const { subscribersMax, subscribersPerAddressMax, filterBytesMax, filterBytesPerAddressMax } =
      this.#limits
    const isFull = this.#subscribers.all >= subscribersMax && !this.#fanout.hasRoomFor(address)
    if (isFull || this.#filterBytes.all + bytes > filterBytesMax) {
      const message = 'This server has as many subscribers as it takes; try again later'
      throw new XrpcError(503, 'ServiceUnavailable', message, { 'Retry-After': '60' })
    }
    const here = { subscribers: this.#subscribers.of(address), bytes: this.#filterBytes.of(address) }
    if (here.subscribers >= subscribersPerAddressMax) {
      throw tooMany(`Your address has ${here.subscribers} subscriptions open; close one first`)
    }
    if (here.bytes + bytes > filterBytesPerAddressMax) {
      throw tooMany(
        `The filters of your address would take ${here.bytes + bytes} bytes; ${filterBytesPerAddressMax} is the most`,
      )
    }
  }

  take({ address, filterBytes: bytes }: PlaceWish): void {
    if (this.#subscribers.all >= this.#limits.subscribersMax) this.#fanout.makeRoomFor(address)
    this.#subscribers.add(address, 1)
    this.#filterBytes.add(address, bytes)
  }

  /**
   * Takes a place in exchange for the one that a subscriber has.
   * @throws XrpcError as `check` does. The subscriber keeps its place then.
   */
  exchange(before: PlaceWish, after: PlaceWish): void {
    this.leave(before)
    try {
      this.check(after)
    } catch (error) {
      this.take(before)
      throw error
    }
    this.take(after)
  }

  leave({ address, filterBytes: bytes }: PlaceWish): void {
    this.#subscribers.add(address, -1)
    this.#filterBytes.add(address, -bytes)
  }
}

function tooMany(message: string): XrpcError {
  return new XrpcError(429, 'RateLimitExceeded', message, { 'Retry-After': '60' })
}
