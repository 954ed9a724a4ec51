import type { Did } from '@tributary/protocol'
import { newAccount, type Account } from './account.ts'

/** All accounts that any source has spoken for, and how many active ones each source has. */
export class AccountTable {
  readonly #byDid: Map<string, Account>
  readonly #activeBySource = new Map<number, number>()

  constructor(accounts: Map<string, Account> = new Map()) {
    this.#byDid = accounts
    for (const account of accounts.values()) this.#count(account, 1)
  }

  get size(): number {
    return this.#byDid.size
  }

  get(did: string): Account | undefined {
    return this.#byDid.get(did)
  }

  /** The account, known from now on if it was not. It belongs to no source until one has spoken for it. */
  take(did: Did): Account {
    let account = this.#byDid.get(did)
    if (!account) {
      account = newAccount(did)
      this.#byDid.set(did, account)
    }
    return account
  }

  /** Notes which source speaks for an account, and what it says of it. */
  assign(account: Account, sourceId: number, upstreamStatus: string): void {
    if (account.sourceId === sourceId && account.upstreamStatus === upstreamStatus) return
    this.#count(account, -1)
    account.sourceId = sourceId
    account.upstreamStatus = upstreamStatus
    this.#count(account, 1)
  }

  /** Accounts of a source whose upstream status is active. */
  activeOf(sourceId: number): number {
    return this.#activeBySource.get(sourceId) ?? 0
  }

  #count({ sourceId, upstreamStatus }: Account, change: number): void {
    if (sourceId === 0 || upstreamStatus !== 'active') return
    this.#activeBySource.set(sourceId, this.activeOf(sourceId) + change)
  }
}
