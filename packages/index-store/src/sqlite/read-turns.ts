/** Every so many turns, the read that has waited longest has its turn, whatever it has cost. */
const longestWaitEvery = 4

interface Waiting {
  readonly turnsTaken: number
  readonly start: () => void
}

/**
 * Long reads wait here between their statements: one of them goes on in each turn of the event loop. The read with the
 * fewest turns so far goes first, so that a page of few accounts does not wait for pages of many. Every fourth turn goes
 * to the read that has waited longest, so that a page of many is read too.
 */
export class ReadTurns {
  readonly #waiting: Waiting[] = []
  #given = 0

  /**
   * Resolves when it is the caller's turn.
   * @param turnsTaken turns that the same read has had
   */
  next(turnsTaken: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push({ turnsTaken, start: resolve })
    if (this.#waiting.length === 1) setImmediate(() => this.#give())
    return promise
  }

  #give(): void {
    const isForLongestWait = ++this.#given % longestWaitEvery === 0
    const [next] = this.#waiting.splice(isForLongestWait ? 0 : this.#cheapest(), 1)
    if (this.#waiting.length > 0) setImmediate(() => this.#give())
    next?.start()
  }

  /** Of those with the fewest turns, the one that has waited longest. */
  #cheapest(): number {
    const fewest = Math.min(...this.#waiting.map(({ turnsTaken }) => turnsTaken))
    return this.#waiting.findIndex(({ turnsTaken }) => turnsTaken === fewest)
  }
}
