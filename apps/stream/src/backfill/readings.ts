/**
 * Repositories that are read at a time: in all, and of one host. A host may let us wait for minutes, and several may do
 * so together. Such readings leave their place to others, so that it takes a dozen hosts to hold up the rest.
 */
export const reposMax = 8
const reposPerHostMax = 2
const slowReposMax = 16
const slowMs = 5000

export interface Reading {
  /** For whom the repository is read; empty for all hosts together that are not known, or not read by the relay. */
  host: string
  readonly sinceMs: number
  /** It has its turn among the large ones, or waits for it, and so leaves its place to others. */
  isLarge: boolean
}

/** Repositories that are read now, and the places of their hosts. */
export class Readings {
  readonly #all = new Map<string, Reading>()

  get size(): number {
    return this.#all.size
  }

  has(did: string): boolean {
    return this.#all.has(did)
  }

  begin(did: string, host: string): Reading {
    const reading = { host, sinceMs: performance.now(), isLarge: false }
    this.#all.set(did, reading)
    return reading
  }

  end(did: string): void {
    this.#all.delete(did)
  }

  /** Gives a reading a place of its host, which was not known before. False when the host has none left. */
  move(reading: Reading, host: string): boolean {
    if (reading.host === host) return true
    if (this.#countOf(host) >= reposPerHostMax) return false
    reading.host = host
    return true
  }

  /** How many repositories of a host may be begun now. None when it is not above 0. */
  roomFor(host: string): number {
    const nowMs = performance.now()
    const usual = this.#all
      .values()
      .filter(({ isLarge }) => !isLarge)
      .toArray()
    const slow = usual.filter(({ sinceMs }) => nowMs - sinceMs >= slowMs).length
    const free = reposMax + Math.min(slow, slowReposMax) - usual.length
    return Math.min(free, reposPerHostMax - this.#countOf(host))
  }

  #countOf(host: string): number {
    return this.#all
      .values()
      .filter((each) => each.host === host)
      .toArray().length
  }
}
