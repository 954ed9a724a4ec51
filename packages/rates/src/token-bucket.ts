/** Lets things happen at a pace, and up to `burst` of them at once. It begins full. */
export class TokenBucket {
  readonly #nowMs: () => number
  readonly #ownBurst: number | undefined
  #perSecond: number
  #tokens: number
  #filledAtMs: number

  /** @param rate `burst` is a second's worth by default, and then follows `perSecond`. */
  constructor({ perSecond, burst }: { perSecond: number; burst?: number }, nowMs: () => number) {
    this.#nowMs = nowMs
    this.#ownBurst = burst
    this.#perSecond = perSecond
    this.#tokens = this.#burst
    this.#filledAtMs = nowMs()
  }

  get perSecond(): number {
    return this.#perSecond
  }

  /** Changing the pace refills nothing. */
  set perSecond(perSecond: number) {
    this.#fill()
    this.#perSecond = perSecond
    this.#tokens = Math.min(this.#tokens, this.#burst)
  }

  /** How many may happen now. Negative while more was spent than there was. */
  get available(): number {
    this.#fill()
    return Math.floor(this.#tokens)
  }

  /** Counts what happens, also beyond what is available: that is paid for before the next. */
  spend(count: number): void {
    this.#tokens -= count
  }

  /** Milliseconds until `count` may happen at once, or until the bucket is full if that is sooner. */
  waitMsFor(count: number): number {
    this.#fill()
    const missing = Math.min(count, this.#burst) - this.#tokens
    return missing <= 0 ? 0 : Math.ceil((missing / this.#perSecond) * 1000)
  }

  /**
   * Takes one, in advance if it will be there within `waitMsMax`.
   * @returns whether it was taken, and the milliseconds until it is, or would be, there.
   */
  take(waitMsMax: number): { isTaken: boolean; waitMs: number } {
    const waitMs = this.waitMsFor(1)
    const isTaken = waitMs <= waitMsMax
    if (isTaken) this.#tokens -= 1
    return { isTaken, waitMs }
  }

  get #burst(): number {
    return this.#ownBurst ?? this.#perSecond
  }

  #fill(): void {
    const nowMs = this.#nowMs()
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, gained))
    this.#filledAtMs = nowMs
  }
}
