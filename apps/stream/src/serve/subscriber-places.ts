import { XrpcError } from '@tributary/xrpc'

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

interface Taken {
  subscribers: number
  dids: number
}

const nothing: Readonly<Taken> = { subscribers: 0, dids: 0 }

/** Counts subscribers and the DIDs of their filters, in all and by address. */
export class SubscriberPlaces {
  readonly #limits: PlaceLimits
  readonly #all: Taken = { ...nothing }
  readonly #byAddress = new Map<string, Taken>()

  constructor(limits: PlaceLimits) {
    this.#limits = limits
  }

  /** @throws XrpcError 503 `ServiceUnavailable` or 429 `RateLimitExceeded` when there is no place. */
  check({ address, dids }: PlaceWish): void {
    const { subscribersMax, subscribersPerAddressMax, didsMax, didsPerAddressMax } = this.#limits
    const here = this.#byAddress.get(address) ?? nothing
    if (this.#all.subscribers >= subscribersMax || this.#all.dids + dids > didsMax) {
      const message = 'This server has as many subscribers as it takes; try again later'
      throw new XrpcError(503, 'ServiceUnavailable', message, { 'Retry-After': '60' })
    }
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
    const here = this.#byAddress.get(address) ?? { ...nothing }
    this.#byAddress.set(address, here)
    for (const taken of [this.#all, here]) {
      taken.subscribers++
      taken.dids += dids
    }
  }

  leave({ address, dids }: PlaceWish): void {
    const here = this.#byAddress.get(address) ?? { ...nothing }
    for (const taken of [this.#all, here]) {
      taken.subscribers--
      taken.dids -= dids
    }
    if (here.subscribers === 0) this.#byAddress.delete(address)
  }
}

function tooMany(message: string): XrpcError {
  return new XrpcError(429, 'RateLimitExceeded', message, { 'Retry-After': '60' })
}
