import type { Did } from '@tributary/protocol'

const accountsMax = 10_000

/** How often something may happen for one account within a window. Forgets all when it knows too many accounts. */
export class RateWindow {
  readonly #max: { count: number; windowMs: number }
  readonly #seen = new Map<Did, { count: number; sinceMs: number }>()

  constructor(max: { count: number; windowMs: number }) {
    this.#max = max
  }

  /** Counts one more. False when that is too many. */
  take(did: Did, nowMs: number): boolean {
    const seen = this.#seen.get(did)
    if (seen && nowMs - seen.sinceMs <= this.#max.windowMs) return ++seen.count <= this.#max.count
    if (this.#seen.size > accountsMax) this.#seen.clear()
    this.#seen.set(did, { count: 1, sinceMs: nowMs })
    return true
  }
}
