import { setImmediate as nextTurn } from 'node:timers/promises'

/** Long reads wait here between their statements: one of them goes on in each turn of the event loop. */
export class ReadTurns {
  #last: Promise<unknown> = Promise.resolve()

  /** Resolves when it is the caller's turn. */
  async next(): Promise<void> {
    const mine = this.#last.then(() => nextTurn())
    this.#last = mine
    await mine
  }
}
