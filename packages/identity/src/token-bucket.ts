/** Lets so many things happen a second, and up to `burst` of them at once. */
export class TokenBucket {
  readonly #perSecond: number
  readonly #burst: number
  readonly #nowMs: () => number
  #tokens: number
  #filledAtMs: number

  constructor(perSecond: number, burst: number, nowMs: () => number) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#nowMs = nowMs
    this.#tokens = burst
    this.#filledAtMs = nowMs()
  }

  /**
   * Takes a token, in advance if it will be there within `waitMsMax`.
   * @returns whether it was taken, and the milliseconds until it is, or would be, there.
   */
  take(waitMsMax: number): { isTaken: boolean; waitMs: number } {
    const now = this.#nowMs()
    const gained = ((now - this.#filledAtMs) / 1000) * this.#perSecond
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, gained))
    this.#filledAtMs = now
    const waitMs = Math.max(0, ((1 - this.#tokens) / this.#perSecond) * 1000)
    const isTaken = waitMs <= waitMsMax
    if (isTaken) this.#tokens -= 1
    return { isTaken, waitMs: Math.ceil(waitMs) }
  }
}
