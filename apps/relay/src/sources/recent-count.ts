const partMs = 10_000
const parts = 6

/** Counts what happened within the last minute, to ten seconds: what lies on its edge is counted in part. */
export class RecentCount {
  /** Of the part under way and of the six before it, at their number modulo the length. */
  readonly #counts: number[] = Array.from({ length: parts + 1 }, () => 0)
  #part = 0

  note(nowMs: number): void {
    this.#move(nowMs)
    const at = this.#part % this.#counts.length
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
  }

  lastMinute(nowMs: number = Date.now()): number {
    this.#move(nowMs)
    const oldest = this.#counts[(this.#part + 1) % this.#counts.length] ?? 0
    const gone = oldest * Math.min(1, Math.max(0, nowMs / partMs - this.#part))
    return Math.round(this.#counts.reduce((sum, count) => sum + count, -gone))
  }

  /** A clock that is set back counts on where it was. */
  #move(nowMs: number): void {
    const part = Math.floor(nowMs / partMs)
    if (part <= this.#part) return
    for (let gone = Math.min(part - this.#part, this.#counts.length); gone > 0; gone--)
      this.#counts[(this.#part + gone) % this.#counts.length] = 0
    this.#part = part
  }
}
