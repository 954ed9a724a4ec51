import type { Did } from '@tributary/protocol'
import type { Account } from '../state/account.ts'

export interface InactiveSweepOptions {
  accounts: { all(): Iterable<Account> }
  /** Whether the source of an account is to be read. If not, its host is not asked, and what it answered does not count. */
  isSourceWanted: (account: Account) => boolean
  /** What the account's host says of it now; undefined when it does not answer. */
  askHost: (did: Did) => Promise<string | undefined>
  onStatus: (account: Account, status: string) => void
  /** One account is asked for in each of these. Default 1,000. */
  tickMs?: number
  /** From an answer that says something new to the question whether that is still so. Default 60,000. */
  confirmMs?: number
}

/** How often the host of an inactive account is asked, at most. */
const everyMs = 86_400_000
/** Accounts that are looked at in one go. */
const stepMax = 10_000

/** What a host said first of an account that was known to be otherwise. */
interface News {
  known: string
  status: string
  dueMs: number
}

/**
 * Asks the hosts of inactive accounts, one after the other and each once a day at most, whether they are back: the
 * event that said so can have been missed, and an account that does not write gives no other reason to ask. Deleted
 * accounts are asked for when they write again.
 * A host answers before its events are here. So what it says counts when it says the same a minute later and no event
 * has come: otherwise an account that is just coming back would be announced ahead of its own events, and its current
 * commit would take the place of commits that are on their way.
 */
export class InactiveSweep {
  readonly #options: InactiveSweepOptions
  readonly #timer: NodeJS.Timeout
  /** What is to be asked once more, oldest first: no more than come up in the time until then. */
  readonly #news = new Map<Account, News>()
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
    const account = this.#nextNews() ?? this.#next()
    if (account) void this.#ask(account)
  }

  /** The account whose host is to be asked once more. */
  #nextNews(): Account | undefined {
    for (const [account, { known, dueMs }] of this.#news) {
      if (account.upstreamStatus !== known || !this.#options.isSourceWanted(account))
        this.#news.delete(account)
      else return dueMs <= Date.now() ? account : undefined
    }
    return undefined
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
      const isDue = isAway && sourceId !== 0 && askedAtMs < dueMs && !this.#news.has(value)
      if (isDue && this.#options.isSourceWanted(value)) return value
    }
    return undefined
  }

  async #ask(account: Account): Promise<void> {
    this.#isAsking = true
    account.askedAtMs = Date.now()
    const known = account.upstreamStatus
    const saidBefore = this.#news.get(account)?.status
    this.#news.delete(account)
    try {
      const status = await this.#options.askHost(account.did)
      // What an event said meanwhile is newer than the answer.
      if (status === undefined || status === known || this.#isClosed || account.upstreamStatus !== known)
        return
      if (!this.#options.isSourceWanted(account)) return
      if (status === saidBefore) this.#options.onStatus(account, status)
      else {
        // An event of the account may be a reason to ask until then.
        account.askedAtMs = 0
        this.#news.set(account, { known, status, dueMs: Date.now() + (this.#options.confirmMs ?? 60_000) })
      }
    } finally {
      this.#isAsking = false
    }
  }
}
