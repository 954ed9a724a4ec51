/** The transactions of a writer on its one connection, one after the other. */
import type { WriteSession } from '../session.ts'
import { Batch } from './batch.ts'

/** How a connection begins and ends a transaction. They throw what the database throws. */
export interface TransactionControl {
  readonly begin: () => Promise<void> | void
  readonly commit: () => Promise<void> | void
  /** Without effect when the transaction has ended by itself. */
  readonly rollback: () => Promise<void> | void
}

export class Transactions {
  readonly #session: WriteSession
  readonly #control: TransactionControl
  #last: Promise<void> = Promise.resolve()

  constructor(session: WriteSession, control: TransactionControl) {
    this.#session = session
    this.#control = control
  }

  /** Runs `work` in a transaction. What it throws takes back what was done since the transaction was last split. */
  async run<T>(work: (batch: Batch) => Promise<T>): Promise<T> {
    const { begin, commit, rollback } = this.#control
    let leave = await this.#enter()
    const split = async (between?: () => Promise<void>): Promise<void> => {
      await commit()
      leave()
      await between?.()
      leave = await this.#enter()
      await begin()
    }
    try {
      await begin()
      try {
        const result = await work(new Batch(this.#session, split))
        await commit()
        return result
      } catch (error) {
        await rollback()
        throw error
      }
    } finally {
      leave()
    }
  }

  /** Resolves when the transactions that were asked for by now have ended. */
  async ended(): Promise<void> {
    await this.#last
  }

  /** Waits for its turn. The result ends it. */
  async #enter(): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const before = this.#last
    this.#last = promise
    await before
    return resolve
  }
}
