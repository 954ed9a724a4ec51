/**
 * How far a numbered stream has been done. Events are begun in order and finished in any; everything up to `done` is
 * finished, so a reader that resumes from there misses nothing.
 */
export class Progress {
  /** Begun and not finished, oldest first. */
  readonly #open = new Set<number>()
  #newest: number

  constructor(done: number) {
    this.#newest = done
  }

  /** The newest event that was begun. */
  get newest(): number {
    return this.#newest
  }

  get done(): number {
    for (const oldest of this.#open) return oldest - 1
    return this.#newest
  }

  /** @param seq above every one begun before. */
  begin(seq: number): void {
    this.#newest = seq
    this.#open.add(seq)
  }

  finish(seq: number): void {
    this.#open.delete(seq)
  }
}
