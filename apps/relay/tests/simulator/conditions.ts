/**
 * What the world around the relay is like at the moment: how the directory, the hosts of accounts, their connections, the
 * verifying threads and the disks behave, each for a while and then as they should again.
 */
import type { Random } from '@tributary/testkit/disk'
import type { VirtualTime } from '@tributary/testkit/simulation'

export const manners = {
  /** How documents are answered for: with what they were before, with none at all, and so on. */
  directory: ['late', 'silent', 'failing', 'older', 'missing'],
  /** How the hosts of accounts answer. */
  answers: ['late', 'silent', 'failing', 'garbled'],
  link: ['down', 'slow', 'jumpy'],
  threads: ['slow', 'forgetful'],
  disk: ['slow', 'stuck'],
  database: ['slow'],
  /** Accounts that a host makes up are in the way of its own. */
  flood: ['on'],
} as const

export type Part = keyof typeof manners

/** A part of the world: the whole of it, or what belongs to one account or host. */
export type Place = Part | `${Part} ${number}`

export class Conditions {
  readonly #time: VirtualTime
  readonly #random: Random
  readonly #now = new Map<Place, { manner: string; untilMs: number }>()
  /** When a place was last not as it should be. */
  readonly #oddAtMs = new Map<Place, number>()

  constructor(time: VirtualTime, random: Random) {
    this.#time = time
    this.#random = random
  }

  /** How a place behaves; `fair` when it is as it should be. The narrower of several places counts. */
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
