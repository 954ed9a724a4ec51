/** What the world around the stream is like at the moment: each part behaves oddly for a while, and then as it should again. */
import type { Random } from '@tributary/testkit/disk'
import type { VirtualTime } from '@tributary/testkit/simulation'

export const manners = {
  /** How the directory answers for documents. */
  directory: ['late', 'silent', 'failing'],
  /** The connection to the relay. */
  link: ['down', 'slow', 'jumpy'],
  /** The host of all accounts, which is asked for their repositories. */
  host: ['late', 'failing'],
  disk: ['slow', 'stuck'],
  database: ['slow'],
} as const

export type Part = keyof typeof manners

export class Conditions {
  readonly #time: VirtualTime
  readonly #random: Random
  readonly #now = new Map<Part, { manner: string; untilMs: number }>()

  constructor(time: VirtualTime, random: Random) {
    this.#time = time
    this.#random = random
  }

  /** How a part behaves; `fair` when it is as it should be. */
  of(part: Part): string {
    const odd = this.#now.get(part)
    return odd && odd.untilMs > this.#time.nowMs ? odd.manner : 'fair'
  }

  set(part: Part, manner: string, forMs: number): void {
    this.#now.set(part, { manner, untilMs: this.#time.nowMs + forMs })
  }

  /** Until when a part was, or will be, not as it should be; 0 when it always was. */
  oddUntilMs(part: Part): number {
    return this.#now.get(part)?.untilMs ?? 0
  }

  /** All is as it should be from now on. */
  settle(): void {
    for (const odd of this.#now.values()) odd.untilMs = Math.min(odd.untilMs, this.#time.nowMs)
  }

  /** Some milliseconds out of a range. */
  some(fromMs: number, toMs: number): number {
    return fromMs + this.#random.next() * (toMs - fromMs)
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability
  }
}
