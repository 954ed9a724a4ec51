import { RecentMap } from '@tributary/identity'
import type { Clock } from '@tributary/lanes'
import { FairTurns } from '@tributary/rates'
import { HostAwayError } from './host-requests.ts'
import { hasCome, waitMsMax } from './retry-wait.ts'

/**
 * Milliseconds in which a large repository is read, as a rule. A host that takes longer while others wait rests for so many
 * times what it took. So it has a fifth of the time at most, whatever it sends.
 */
const long = { ms: 5000, restFactor: 4 }
/** Hosts whose rest is remembered: many more than can take so long before the rest of the first one is over. */
const restsMax = 1000

/** Nothing was asked of a host, because large repositories of others come first. */
export class HostRestsError extends HostAwayError {}

/**
 * The line of the large repositories, which are read and written one at a time. Hosts take turns, and rest after a long one
 * that others waited for.
 */
export class LargeTurns {
  readonly #clock: Clock
  readonly #turns = new FairTurns()
  readonly #restUntilMs = new RecentMap<string, number>(restsMax)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What the work for a host gives, once it had its turn. @throws HostRestsError, and what the work throws. */
  async run<T>(host: string, work: () => Promise<T>): Promise<T> {
    this.#throwIfResting(host)
    return await this.#turns.run(host, async () => {
      this.#throwIfResting(host)
      return await work()
    })
  }

  /** Does a part of the work that counts as time which its host took. @throws what it throws. */
  async timed<T>(host: string, part: () => Promise<T>): Promise<T> {
    const sinceMs = this.#clock.nowMs()
    try {
      return await part()
    } finally {
      const nowMs = this.#clock.nowMs()
      const tookMs = nowMs - sinceMs
      if (tookMs > long.ms && this.othersWait(host))
        this.#restUntilMs.set(host, nowMs + Math.min(long.restFactor * tookMs, waitMsMax))
    }
  }

  /** Whether large repositories of other hosts wait. */
  othersWait(host: string): boolean {
    return this.#turns.size > this.#turns.sizeOf(host)
  }

  #throwIfResting(host: string): void {
    const [untilMs, nowMs] = [this.#restUntilMs.get(host) ?? 0, this.#clock.nowMs()]
    if (hasCome(untilMs, nowMs)) return
    const message = 'a large repository of its host took long, so others have their turn first'
    throw new HostRestsError(message, { retryAfterMs: untilMs - nowMs })
  }
}
