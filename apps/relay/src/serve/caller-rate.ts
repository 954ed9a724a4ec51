import { networkOf, XrpcError } from '@tributary/xrpc'

const windowMs = 60_000
/** Callers that are remembered. Beyond that all begin again, which lets a few through and costs no memory. */
const callersMax = 10_000

/** Lets each network (`networkOf`) call so many times in a minute. */
export class CallerRate {
  readonly #perMinute: number
  readonly #calls = new Map<string, { count: number; sinceMs: number }>()

  constructor(perMinute: number) {
    this.#perMinute = perMinute
  }

  /** @throws XrpcError 429 `RateLimitExceeded` with `Retry-After` */
  take(address: string, nowMs: number = Date.now()): void {
    const caller = networkOf(address)
    const calls = this.#calls.get(caller)
    if (!calls || nowMs - calls.sinceMs >= windowMs) {
      if (this.#calls.size >= callersMax) this.#calls.clear()
      this.#calls.set(caller, { count: 1, sinceMs: nowMs })
    } else if (++calls.count > this.#perMinute) {
      const seconds = Math.ceil((calls.sinceMs + windowMs - nowMs) / 1000)
      throw new XrpcError(429, 'RateLimitExceeded', `${this.#perMinute} calls a minute are allowed`, {
        'Retry-After': String(seconds),
      })
    }
  }
}
