import { deferred } from '../deferred.ts'

/** Lets so many through at a time, the others in the order in which they came. */
export class Slots {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(count: number) {
    this.#free = count
  }

  /** Runs `work` as soon as there is a place for it. Settles as `work` does. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else {
      const { promise, resolve } = deferred()
      this.#waiting.push(resolve)
      // The place is handed over, and never counted as free in between.
      await promise
    }
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}
