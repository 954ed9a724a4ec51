/** Milliseconds of one turn of the event loop that reading may take, of all connections together. */
const turnMsDefault = 10

/** Does a small piece of work. True when more is to be done at once. */
export type Step = () => boolean

/**
 * Shares the turns of the event loop between the connections of a process, so that what many of them receive at once
 * delays nobody by more than `turnMsMax` and one step. Steps that find no time wait in line and take their pieces in
 * turns, from the next turn of the loop on.
 */
export class Turns {
  readonly #waiting = new Set<Step>()
  readonly #nowMs: () => number
  readonly #turnMsMax: number
  #hasBegun = false
  #endsMs = 0

  constructor(nowMs: () => number = () => performance.now(), turnMsMax: number = turnMsDefault) {
    this.#nowMs = nowMs
    this.#turnMsMax = turnMsMax
  }

  /** Takes a step, and more of them, now if there is time, else in a later turn. */
  run(step: Step): void {
    this.#begin()
    if (this.#waiting.size === 0) {
      while (this.#nowMs() < this.#endsMs) if (!step()) return
    }
    this.#waiting.add(step)
  }

  /** Takes a step in a later turn. */
  runLater(step: Step): void {
    this.#begin()
    this.#waiting.add(step)
  }

  #begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    this.#endsMs = this.#nowMs() + this.#turnMsMax
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#hasBegun = false
    if (this.#waiting.size === 0) return
    this.#begin()
    // A set is walked in the order of entry: a step that enters again comes after all others.
    for (const step of this.#waiting) {
      this.#waiting.delete(step)
      if (step()) this.#waiting.add(step)
      if (this.#nowMs() >= this.#endsMs) return
    }
  }
}
