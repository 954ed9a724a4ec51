/** Lets so many things happen a second, and as many at once as a second gives. */
export class TokenBucket {
  readonly #perSecond: number
  readonly #nowMs: () => number
  #tokens: number
  #filledAtMs: number

  constructor(perSecond: number, nowMs: () => number) {
    this.#perSecond = perSecond
    this.#nowMs = nowMs
    this.#tokens = perSecond
    this.#filledAtMs = nowMs()
  }

  /** Takes a token, now or in advance. @returns milliseconds to wait before acting on it. */
  take(): number {
    const now = this.#nowMs()
    this.#tokens = Math.min(
      this.#perSecond,
      this.#tokens + ((now - this.#filledAtMs) / 1000) * this.#perSecond,
    )
    this.#filledAtMs = now
    this.#tokens -= 1
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#perSecond) * 1000
  }
}
