/** Parts that a window is counted in, so that it needs no memory per event. */
const parts = 60

/**
 * Lets so many events pass in any stretch of time of its length, whenever it begins. Room comes back in steps of a
 * sixtieth of the window, up to one step later than it could. What has passed counts on when the limit is changed.
 */
export class EventWindow {
  readonly #windowMs: number
  readonly #nowMs: () => number
  /** Events that may pass within the window; infinite when it is off. */
  max: number
  /** Events of the part under way and of the `parts` before it, at their number modulo the length. */
  readonly #counts = new Float64Array(parts + 1)
  #part: number
  #used = 0

  constructor(windowMs: number, max: number, nowMs: () => number = Date.now) {
    this.#windowMs = windowMs
    this.max = max
    this.#nowMs = nowMs
    this.#part = this.#partAt(nowMs())
  }

  /** Events that may pass now. */
  get available(): number {
    this.#move()
    return Math.max(0, this.max - this.#used)
  }

  /** Counts events that pass. */
  spend(events: number): void {
    this.#move()
    const at = this.#part % this.#counts.length
    this.#counts[at] = (this.#counts[at] ?? 0) + events
    this.#used += events
  }

  /** Milliseconds until so many may pass, at most as many as may pass within the window. */
  waitMsFor(events: number): number {
    this.#move()
    let missing = Math.min(events, this.max) - (this.max - this.#used)
    if (!(missing > 0)) return 0
    let part = this.#part - parts
    while (part < this.#part && (missing -= this.#counts[part % this.#counts.length] ?? 0) > 0) part++
    return Math.ceil(((part + parts + 1) * this.#windowMs) / parts - this.#nowMs())
  }

  #partAt(ms: number): number {
    return Math.floor((ms * parts) / this.#windowMs)
  }

  /** Forgets what is older than the window. A clock that is set back holds the window where it was. */
  #move(): void {
    const part = this.#partAt(this.#nowMs())
    for (let gone = Math.min(part - this.#part, this.#counts.length); gone > 0; gone--) {
      const at = (this.#part + gone) % this.#counts.length
      this.#used -= this.#counts[at] ?? 0
      this.#counts[at] = 0
    }
    this.#part = Math.max(this.#part, part)
  }
}
