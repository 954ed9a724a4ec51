import { XrpcError } from '@tributary/xrpc'

export interface PlaceLimits {
  consumersMax: number
  consumersPerAddressMax: number
}

/** When to come back: others come and go all the time. */
const retryAfter = { 'Retry-After': '60' }

/** Counts consumers, in all and by address. */
export class ConsumerPlaces {
  readonly #limits: PlaceLimits
  readonly #byAddress = new Map<string, number>()
  #taken = 0

  constructor(limits: PlaceLimits) {
    this.#limits = limits
  }

  /** @throws XrpcError 429 `RateLimitExceeded` when there is no place. */
  check(address: string): void {
    const { consumersMax, consumersPerAddressMax } = this.#limits
    const here = this.#byAddress.get(address) ?? 0
    if (here >= consumersPerAddressMax) {
      const message = `Your address has ${here} connections open, which is the most: close one first`
      throw new XrpcError(429, 'RateLimitExceeded', message, retryAfter)
    }
    if (this.#taken >= consumersMax) {
      const message = 'This relay has as many consumers as it takes: try again later'
      throw new XrpcError(429, 'RateLimitExceeded', message, retryAfter)
    }
  }

  take(address: string): void {
    this.#taken++
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1)
  }

  leave(address: string): void {
    this.#taken--
    const here = (this.#byAddress.get(address) ?? 0) - 1
    if (here > 0) this.#byAddress.set(address, here)
    else this.#byAddress.delete(address)
  }
}
