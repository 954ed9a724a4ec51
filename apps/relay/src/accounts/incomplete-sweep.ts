import type { Account } from '../state/account.ts'

export interface IncompleteSweepOptions {
  accounts: { all(): Iterable<Account> }
  /** Told of each account that misses events. */
  onIncomplete: (account: Account) => void
}

/** Accounts that are looked at in one go. */
const stepMax = 10_000

/**
 * Finds the accounts that miss events, after something made it worth while to ask for them that are waited for no more:
 * their source is wanted again. Few accounts do, and they are not kept in a list of their own.
 */
export class IncompleteSweep {
  readonly #options: IncompleteSweepOptions
  #left: Iterator<Account> | undefined
  #next: NodeJS.Immediate | undefined

  constructor(options: IncompleteSweepOptions) {
    this.#options = options
  }

  /** Looks through all accounts once, from the first. */
  start(): void {
    this.#left = this.#options.accounts.all()[Symbol.iterator]()
    this.#next ??= setImmediate(() => this.#step())
  }

  close(): void {
    clearImmediate(this.#next)
    this.#left = undefined
  }

  #step(): void {
    this.#next = undefined
    for (let step = 0; step < stepMax; step++) {
      const { value, done } = this.#left?.next() ?? { value: undefined, done: true }
      if (done === true) return
      if (value.isIncomplete) this.#options.onIncomplete(value)
    }
    this.#next = setImmediate(() => this.#step())
  }
}
