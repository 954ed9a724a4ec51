/** The share of all time that rendering may take, and the milliseconds of it that may be saved up. */
const budget = { share: 0.05, savedMsMax: 1000 }

/**
 * The text of metrics for callers whom nobody checks. Those who ask at the same time get one text. Whoever asks without
 * pause gets the text that was rendered last, so that rendering takes at most 5 % of the time, after a second of it.
 */
export class MetricsText {
  readonly #render: () => Promise<string>
  readonly #nowMs: () => number
  #last: string | undefined
  #rendering: Promise<string> | undefined
  #savedMs: number = budget.savedMsMax
  #seenAtMs: number

  /** @param nowMs a clock that never goes back. */
  constructor(render: () => Promise<string>, nowMs: () => number = () => performance.now()) {
    this.#render = render
    this.#nowMs = nowMs
    this.#seenAtMs = nowMs()
  }

  async read(): Promise<string> {
    if (this.#rendering) return this.#rendering
    const nowMs = this.#nowMs()
    this.#savedMs = Math.min(budget.savedMsMax, this.#savedMs + (nowMs - this.#seenAtMs) * budget.share)
    this.#seenAtMs = nowMs
    if (this.#savedMs <= 0 && this.#last !== undefined) return this.#last
    this.#rendering = this.#renderFrom(nowMs)
    return this.#rendering
  }

  async #renderFrom(startMs: number): Promise<string> {
    try {
      this.#last = await this.#render()
      return this.#last
    } finally {
      this.#rendering = undefined
      this.#savedMs -= this.#nowMs() - startMs
    }
  }
}
