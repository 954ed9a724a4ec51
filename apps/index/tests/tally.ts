/** Counts what callbacks report and lets a test wait for it. */
export class Tally<T extends string | boolean> {
  readonly counts = new Map<T, number>()
  #changed = Promise.withResolvers<void>()

  readonly add = (what: T, count = 1): void => {
    this.counts.set(what, (this.counts.get(what) ?? 0) + count)
    this.#changed.resolve()
  }

  /** Resolves once `what` was reported at least `count` times. The test runner's time limit is the only bound. */
  async until(what: T, count: number): Promise<void> {
    while ((this.counts.get(what) ?? 0) < count) {
      this.#changed = Promise.withResolvers()
      await this.#changed.promise
    }
  }
}
