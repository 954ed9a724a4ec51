/** Hosts that are kept in mind. One that is forgotten was not asked for a long time. */
const hostsMax = 10_000

/** When each host may be asked: not more often than `everyMs`, and not before it wants to be asked again. */
export class HostPace {
  readonly #everyMs: number
  readonly #nowMs: () => number
  /** From when on each host may be asked again, the one that was asked last at the end. */
  readonly #nextMs = new Map<string, number>()

  constructor(everyMs: number, nowMs: () => number = Date.now) {
    this.#everyMs = everyMs
    this.#nowMs = nowMs
  }

  /** Takes the next turn of a host, and returns for how many milliseconds it has to be waited for. */
  take(host: string): number {
    const now = this.#nowMs()
    const turn = Math.max(now, this.#nextMs.get(host) ?? 0)
    this.#set(host, turn + this.#everyMs)
    return turn - now
  }

  /** Leaves a host alone for so many milliseconds from now on. */
  leaveAlone(host: string, ms: number): void {
    this.#set(host, Math.max(this.#nextMs.get(host) ?? 0, this.#nowMs() + ms))
  }

  #set(host: string, nextMs: number): void {
    this.#nextMs.delete(host)
    this.#nextMs.set(host, nextMs)
    const [oldest] = this.#nextMs.keys()
    if (this.#nextMs.size > hostsMax && oldest !== undefined) this.#nextMs.delete(oldest)
  }
}
