import type { Random } from '../random.ts'
import type { VirtualTime } from './virtual-time.ts'

/** What the world around a service is like at the moment: each place of it behaves oddly for a while, and then as it should again. */
export class Conditions<Place extends string> {
  readonly #time: VirtualTime
  readonly #random: Random
  readonly #now = new Map<Place, { manner: string; untilMs: number }>()
  /** When a place was last not as it should be. */
  readonly #oddAtMs = new Map<Place, number>()

  constructor(time: VirtualTime, random: Random) {
    this.#time = time
    this.#random = random
  }

  /** How a place behaves; `fair` when it is as it should be. The first of several places that does not counts. */
  of(...places: readonly Place[]): string {
    for (const place of places) {
      const odd = this.#now.get(place)
      if (odd && odd.untilMs > this.#time.nowMs) return odd.manner
    }
    return 'fair'
  }

  set(place: Place, manner: string, forMs: number): void {
    const untilMs = this.#time.nowMs + forMs
    this.#now.set(place, { manner, untilMs })
    this.#oddAtMs.set(place, Math.max(untilMs, this.#oddAtMs.get(place) ?? 0))
  }

  /** Until when a place was, or will be, not as it should be, in milliseconds since 1970; 0 when it always was. */
  oddUntilMs(place: Place): number {
    return this.#oddAtMs.get(place) ?? 0
  }

  /** All is as it should be from now on. */
  settle(): void {
    this.#now.clear()
    for (const [place, atMs] of this.#oddAtMs) this.#oddAtMs.set(place, Math.min(atMs, this.#time.nowMs))
  }

  /** Some milliseconds out of a range. */
  some(fromMs: number, toMs: number): number {
    return fromMs + this.#random.next() * (toMs - fromMs)
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability
  }
}
