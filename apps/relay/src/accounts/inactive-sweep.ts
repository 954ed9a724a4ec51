import type { Did } from '@tributary/protocol'
import type { Account } from '../state/account.ts'

export interface InactiveSweepOptions {
  accounts: { all(): Iterable<Account> }
  /** What the account's host says of it now; undefined when it does not answer. */
  askHost: (did: Did) => Promise<string | undefined>
  onStatus: (account: Account, status: string) => void
  /** One account is asked for in each of these. Default 1,000. */
  tickMs?: number
}

/** How often the host of an inactive account is asked, at most. */
const everyMs = 86_400_000
/** Accounts that are looked at in one go. */
const stepMax = 10_000

/**
 * Asks the hosts of inactive accounts, one after the other and each once a day at most, whether they are back: the
 * event that said so can have been missed, and an account that does not write gives no other reason to ask. Deleted
 * accounts are asked for when they write again.
 */
export class InactiveSweep {
  readonly #options: InactiveSweepOptions
  readonly #timer: NodeJS.Timeout
  #left: Iterator<Account>
  #isAsking = false
  #isClosed = false

  constructor(options: InactiveSweepOptions) {
    this.#options = options
    this.#left = options.accounts.all()[Symbol.iterator]()
    this.#timer = setInterval(() => this.#tick(), options.tickMs ?? 1000).unref()
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  #tick(): void {
    if (this.#isAsking) return
    const account = this.#next()
    if (account) void this.#ask(account)
  }

  #next(): Account | undefined {
    const dueMs = Date.now() - everyMs
    for (let step = 0; step < stepMax; step++) {
      const { value, done } = this.#left.next()
      if (done === true) {
        this.#left = this.#options.accounts.all()[Symbol.iterator]()
        return undefined
      }
      const { upstreamStatus, sourceId, askedAtMs } = value
      const isAway = upstreamStatus !== 'active' && upstreamStatus !== 'deleted'
      if (isAway && sourceId !== 0 && askedAtMs < dueMs) return value
    }
    return undefined
  }

  async #ask(account: Account): Promise<void> {
    this.#isAsking = true
    account.askedAtMs = Date.now()
    const before = account.upstreamStatus
    try {
      const status = await this.#options.askHost(account.did)
      // What an event said meanwhile is newer than the answer.
      if (status === undefined || this.#isClosed || account.upstreamStatus !== before) return
      this.#options.onStatus(account, status)
    } finally {
      this.#isAsking = false
    }
  }
}
