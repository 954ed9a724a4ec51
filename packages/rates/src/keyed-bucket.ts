export interface KeyedBucketOptions {
  perMinute: number
  /** How many may happen at once after a time without any. */
  burst: number
  /** Keys that are remembered. */
  keysMax: number
}

/**
 * Lets things happen at a pace for each of many keys, and up to `burst` of them at once. Others choose the keys, so only
 * some are remembered: a new key takes the place of the one that was not seen for the longest time.
 */
export class KeyedBucket<K> {
  readonly #stepMs: number
  readonly #burst: number
  readonly #keysMax: number
  /** When the bucket of a key is full again. The key that was not seen for the longest time comes first. */
  readonly #fullAtMs = new Map<K, number>()

  constructor({ perMinute, burst, keysMax }: KeyedBucketOptions) {
    this.#stepMs = 60_000 / perMinute
    this.#burst = burst
    this.#keysMax = keysMax
  }

  /** Counts one more if it may happen, and returns 0. Else the milliseconds until it may; what is refused costs nothing. */
  take(key: K, nowMs: number): number {
    const before = this.#fullAtMs.get(key) ?? nowMs
    // A clock that was set back makes nobody wait longer than an empty bucket does.
    const fullAtMs = Math.min(Math.max(before, nowMs), nowMs + this.#burst * this.#stepMs)
    const waitMs = fullAtMs - nowMs - (this.#burst - 1) * this.#stepMs
    this.#fullAtMs.delete(key)
    this.#fullAtMs.set(key, waitMs > 0 ? fullAtMs : fullAtMs + this.#stepMs)
    if (this.#fullAtMs.size > this.#keysMax)
      for (const [oldest] of this.#fullAtMs.entries().take(1)) this.#fullAtMs.delete(oldest)
    return Math.max(0, waitMs)
  }
}
