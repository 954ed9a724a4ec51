/**
 * Lets so many events pass a second, with up to a second's worth at once. Changing the rate refills nothing.
 */
export class EventBucket {
  readonly #nowMs: () => number
  #perSecond: number
  #tokens: number
  #filledAtMs: number

  constructor(perSecond: number, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs
    this.#perSecond = perSecond
    this.#tokens = perSecond
    this.#filledAtMs = nowMs()
  }

  get perSecond(): number {
    return this.#perSecond
  }

  set perSecond(perSecond: number) {
    this.#fill()
    this.#perSecond = perSecond
    this.#tokens = Math.min(this.#tokens, perSecond)
  }

  /** Events that may pass now. */
  get available(): number {
    this.#fill()
    return Math.floor(this.#tokens)
  }

  /** Counts events that pass. */
  spend(events: number): void {
    this.#tokens -= events
  }

  /** Milliseconds until so many may pass, at most what the bucket holds. */
  waitMsFor(events: number): number {
    this.#fill()
    const missing = Math.min(events, this.#perSecond) - this.#tokens
    return missing <= 0 ? 0 : Math.ceil((missing / this.#perSecond) * 1000)
  }

  #fill(): void {
    const nowMs = this.#nowMs()
    const gained = ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond
    this.#tokens = Math.min(this.#perSecond, this.#tokens + Math.max(0, gained))
    this.#filledAtMs = nowMs
  }
}
