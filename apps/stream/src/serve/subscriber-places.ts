import type { Fanout } from '@tributary/fanout'
import { AddressCount, XrpcError } from '@tributary/xrpc'

export interface PlaceLimits {
  subscribersMax: number
  subscribersPerAddressMax: number
  didsMax: number
  didsPerAddressMax: number
}

/** One subscriber: where it comes from, and how many DIDs its filter names, which is what it costs in memory. */
export interface PlaceWish {
  address: string
  dids: number
}

/** Counts subscribers and the DIDs of their filters, in all and by address. */
export class SubscriberPlaces {
  readonly #limits: PlaceLimits
  readonly #fanout: Pick<Fanout, 'hasRoomFor' | 'makeRoomFor'>
  readonly #subscribers = new AddressCount()
  readonly #dids = new AddressCount()

  /** @param fanout ends a subscriber for a newcomer when all places are taken. */
  constructor(limits: PlaceLimits, fanout: Pick<Fanout, 'hasRoomFor' | 'makeRoomFor'>) {
    this.#limits = limits
    this.#fanout = fanout
  }

  /** @throws XrpcError 503 `ServiceUnavailable` or 429 `RateLimitExceeded` when there is no place. */
  check({ address, dids }: PlaceWish): void {
    const { subscribersMax, subscribersPerAddressMax, didsMax, didsPerAddressMax } = this.#limits
    const isFull = this.#subscribers.all >= subscribersMax && !this.#fanout.hasRoomFor(address)
    if (isFull || this.#dids.all + dids > didsMax) {
      const message = 'This server has as many subscribers as it takes; try again later'
      throw new XrpcError(503, 'ServiceUnavailable', message, { 'Retry-After': '60' })
    }
    const here = { subscribers: this.#subscribers.of(address), dids: this.#dids.of(address) }
    if (here.subscribers >= subscribersPerAddressMax) {
      throw tooMany(`Your address has ${here.subscribers} subscriptions open; close one first`)
    }
    if (here.dids + dids > didsPerAddressMax) {
      throw tooMany(
        `The subscriptions of your address name ${here.dids} DIDs; ${didsPerAddressMax} is the most`,
      )
    }
  }

  take({ address, dids }: PlaceWish): void {
    if (this.#subscribers.all >= this.#limits.subscribersMax) this.#fanout.makeRoomFor(address)
    this.#subscribers.add(address, 1)
    this.#dids.add(address, dids)
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

  leave({ address, dids }: PlaceWish): void {
    this.#subscribers.add(address, -1)
    this.#dids.add(address, -dids)
  }
}

function tooMany(message: string): XrpcError {
  return new XrpcError(429, 'RateLimitExceeded', message, { 'Retry-After': '60' })
}
