export interface KeyedRateOptions {
  /** How often it may happen for one key within a window. The window of a key begins when it happens for the first time. */
  max: number
  windowMs: number
  /** Keys that are remembered. */
  keysMax: number
}

/**
 * How often something may happen for each of many keys. Others choose the keys, so only some are remembered: a new key
 * takes the place of the one that was not seen for the longest time. A key that goes on beyond its rate stays known.
 */
export class KeyedRate<K> {
  readonly #options: KeyedRateOptions
  /** The key that was not seen for the longest time comes first. */
  readonly #seen = new Map<K, { count: number; sinceMs: number }>()

  constructor(options: KeyedRateOptions) {
    this.#options = options
  }

  /** Counts one more. Returns 0 if it may happen, else the milliseconds until it may. */
  take(key: K, nowMs: number): number {
    const { max, windowMs, keysMax } = this.#options
    const seen = this.#inWindow(key, nowMs) ?? { count: 0, sinceMs: nowMs }
    seen.count++
    this.#seen.delete(key)
    this.#seen.set(key, seen)
    if (this.#seen.size > keysMax)
      for (const [oldest] of this.#seen.entries().take(1)) this.#seen.delete(oldest)
    return seen.count <= max ? 0 : seen.sinceMs + windowMs - nowMs
  }
  /** Returns 0 if it may happen once more, else the milliseconds until it may. Counts nothing. */
  waitMsFor(key: K, nowMs: number): number {
    const { max, windowMs } = this.#options
    const seen = this.#inWindow(key, nowMs)
    return !seen || seen.count < max ? 0 : seen.sinceMs + windowMs - nowMs
  }

  /** The key begins again. */
  forget(key: K): void {
    this.#seen.delete(key)
  }

  #inWindow(key: K, nowMs: number): { count: number; sinceMs: number } | undefined {
    const seen = this.#seen.get(key)
    // After the clock was set back the window counts as one that begins now.
    if (seen && seen.sinceMs > nowMs) seen.sinceMs = nowMs
    return seen && nowMs - seen.sinceMs < this.#options.windowMs ? seen : undefined
  }
}
