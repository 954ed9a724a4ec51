/** Parts that a window is counted in, so that it needs no memory per event. */
const parts = 60

/**
 * Counts what happens in any stretch of time of its length, whenever that begins, and says how much more may. Counts
 * are forgotten in steps of a sixtieth of the window, up to one step later than they could be.
 */
export class SlidingWindow {
  readonly #windowMs: number
  readonly #nowMs: () => number
  /** How much may happen within the window; infinite when there is no limit. What has happened counts on when it changes. */
  max: number
  /** Counts of the part under way and of the `parts` before it, at their number modulo the length. */
  readonly #counts: Float64Array = new Float64Array(parts + 1)
  #part: number
  #used = 0

  constructor(windowMs: number, max: number, nowMs: () => number) {
    this.#windowMs = windowMs
    this.max = max
    this.#nowMs = nowMs
    this.#part = this.#partAt(nowMs())
  }

  /** What has happened within the window. */
  get used(): number {
    this.#move()
    return this.#used
  }

  /** How much may happen now. */
  get available(): number {
    return Math.max(0, this.max - this.used)
  }

  /** Counts what happens, also beyond what is available. */
  spend(count: number): void {
    this.#move()
    const at = this.#part % this.#counts.length
    this.#counts[at] = (this.#counts[at] ?? 0) + count
    this.#used += count
  }

  /** Milliseconds until `count` may happen, or until the window is empty if that is sooner. */
  waitMsFor(count: number): number {
    this.#move()
    let missing = Math.min(count, this.max) - (this.max - this.#used)
    if (!(missing > 0)) return 0
    let part = this.#part - parts
    while (part < this.#part && (missing -= this.#counts[part % this.#counts.length] ?? 0) > 0) part++
    return Math.ceil(((part + parts + 1) * this.#windowMs) / parts - this.#nowMs())
  }

  #partAt(ms: number): number {
    return Math.floor((ms * parts) / this.#windowMs)
  }

  /** Forgets what is older than the window. */
  #move(): void {
    const part = this.#partAt(this.#nowMs())
    if (part < this.#part) this.#moveBack(part)
    for (let gone = Math.min(part - this.#part, this.#counts.length); gone > 0; gone--) {
      const at = (this.#part + gone) % this.#counts.length
      this.#used -= this.#counts[at] ?? 0
      this.#counts[at] = 0
    }
    this.#part = part
  }

  /** After the clock was set back, what has happened counts as if it had happened as long before now. */
  #moveBack(part: number): void {
    const counts = this.#counts.slice()
    for (let ago = 0; ago < counts.length; ago++)
      this.#counts[placeOf(part - ago)] = counts[placeOf(this.#part - ago)] ?? 0
    this.#part = part
  }
}

/** Where a part is counted. */
function placeOf(part: number): number {
  const places = parts + 1
  return ((part % places) + places) % places
}
