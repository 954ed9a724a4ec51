import type { Load } from './load-file.ts'

export interface PlayOptions {
  /** Events a second over all hosts; as fast as the readers take them when left out. */
  rate?: number | undefined
  /** How many further events; all that are left when left out. */
  count?: number | undefined
}

/** Milliseconds on a clock that all processes of this machine share and nobody sets. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** How far a load has been played. What lies before `head` is there for every reader to read. */
export class LoadReplay {
  readonly load: Load
  /** When each event was first handed to a socket, by `monotonicMs`; 0 for those that were not. */
  readonly sendTimesMs: Float64Array
  /** Index of each account by its DID. */
  readonly accountIndexes: ReadonlyMap<string, number>
  #head = 0
  readonly #listeners = new Set<() => void>()

  constructor(load: Load) {
    this.load = load
    this.sendTimesMs = new Float64Array(load.count)
    this.accountIndexes = new Map(load.info.accounts.map(({ did }, index) => [did, index]))
  }

  /** Events played so far: also the seq of the last of them. */
  get head(): number {
    return this.#head
  }

  /** Calls `listener` whenever the head has moved, until the returned function is called. */
  onHead(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Keeps the time at which an event was handed to its first reader. */
  noteSent(event: number, nowMs: number): void {
    if (this.sendTimesMs[event] === 0) this.sendTimesMs[event] = nowMs
  }

  /** Moves the head. Settles when it stands where it was told to; returns it. */
  async play({ rate, count }: PlayOptions): Promise<number> {
    const from = this.#head
    const to = Math.min(this.load.count, count === undefined ? Infinity : from + count)
    if (rate === undefined) {
      this.#moveTo(to)
      return to
    }
    const startMs = monotonicMs()
    while (this.#head < to) {
      const due = from + Math.floor(((monotonicMs() - startMs) * rate) / 1000) + 1
      if (due > this.#head) this.#moveTo(Math.min(to, due))
      const nextMs = startMs + ((this.#head - from) * 1000) / rate
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, nextMs - monotonicMs())))
    }
    return to
  }

  #moveTo(head: number): void {
    this.#head = head
    for (const listener of this.#listeners) listener()
  }
}
