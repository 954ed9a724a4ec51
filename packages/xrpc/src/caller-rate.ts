import { KeyedRate } from '@tributary/rates'
import { networkOf } from './network-of.ts'
import { XrpcError } from './xrpc-error.ts'

/** Networks whose calls are counted. Forgetting one lets a few calls through. */
const callersMax = 10_000

/** Limits how often each network (`networkOf`) may call in a minute. */
export class CallerRate {
  readonly #perMinute: number
  readonly #calls: KeyedRate<string>

  constructor(perMinute: number) {
    this.#perMinute = perMinute
    this.#calls = new KeyedRate({ max: perMinute, windowMs: 60_000, keysMax: callersMax })
  }

  /** @throws XrpcError 429 `RateLimitExceeded` with `Retry-After` */
  take(address: string, nowMs: number = Date.now()): void {
    const waitMs = this.#calls.take(networkOf(address), nowMs)
    if (waitMs === 0) return
    throw new XrpcError(
      429,
      'RateLimitExceeded',
      `${this.#perMinute} calls a minute are allowed; Retry-After says when to call again`,
      {
        'Retry-After': String(Math.ceil(waitMs / 1000)),
      },
    )
  }
}
