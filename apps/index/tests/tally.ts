import { inTime } from '@tributary/testkit'

/** Counts what callbacks report and lets a test wait for it. */
export class Tally<T extends string | boolean> {
  readonly counts = new Map<T, number>()
  #changed = Promise.withResolvers<void>()

  readonly add = (what: T, count = 1): void => {
    this.counts.set(what, (this.counts.get(what) ?? 0) + count)
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  /** Resolves once `what` was reported at least `count` times. Rejects when that takes too long. */
  async until(what: T, count: number): Promise<void> {
    await inTime(this.#reach(what, count), () => this.counts)
  }

  async #reach(what: T, count: number): Promise<void> {
    while ((this.counts.get(what) ?? 0) < count) await this.#changed.promise
  }
}
