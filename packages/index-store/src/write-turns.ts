import { setImmediate as nextTurn } from 'node:timers/promises'
import type Sqlite from 'better-sqlite3'

/** Work that can be interrupted wherever it yields. */
export type Steps<T> = Generator<undefined, T, undefined>

/**
 * Write transactions of one connection, one after the other. A long one goes over many turns of the event loop: readers
 * on other connections see nothing of it before its end, and other writers wait.
 */
export class WriteTurns {
  readonly #sqlite: Sqlite.Database
  readonly #turnMs: number
  #last: Promise<unknown> = Promise.resolve()

  /** `turnMs` is how long work goes on before the event loop gets its turn, if its steps are short. */
  constructor(sqlite: Sqlite.Database, turnMs: number) {
    this.#sqlite = sqlite
    this.#turnMs = turnMs
  }

  /** Runs `work` in a transaction. What it throws takes back all of it, and is thrown. */
  run<T>(work: () => Steps<T>): Promise<T> {
    const done = this.#last.then(() => this.#transaction(work))
    this.#last = done.catch(() => undefined) // the caller has it
    return done
  }

  async #transaction<T>(work: () => Steps<T>): Promise<T> {
    this.#sqlite.exec('begin immediate')
    try {
      const result = await inTurns(work(), this.#turnMs)
      this.#sqlite.exec('commit')
      return result
    } catch (error) {
      // Some faults end the transaction by themselves.
      if (this.#sqlite.inTransaction) this.#sqlite.exec('rollback')
      throw error
    }
  }
}

async function inTurns<T>(steps: Steps<T>, turnMs: number): Promise<T> {
  let turnEndsAt = performance.now() + turnMs
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
    if (performance.now() < turnEndsAt) continue
    await nextTurn()
    turnEndsAt = performance.now() + turnMs
  }
}
