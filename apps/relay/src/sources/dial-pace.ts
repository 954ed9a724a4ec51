/** Between the dials of any two sources. A handshake with TLS costs about 2 ms of CPU. */
const dialEveryMs = 5

/** Spreads dials, so that 2,000 sources that are lost at once, or a start with as many, do not take all of the CPU. */
export class DialPace {
  readonly #nowMs: () => number
  #nextMs = 0

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Takes the next place in line. Returns the milliseconds to wait for it. */
  take(): number {
    const nowMs = this.#nowMs()
    const atMs = Math.max(nowMs, this.#nextMs)
    this.#nextMs = atMs + dialEveryMs
    return atMs - nowMs
  }
}
