/** What operators and quotas do to accounts, and the sweep that finds out about those whose events were missed. */
import type { Did } from '@tributary/protocol'
import type { EventLog } from '@tributary/event-log'
import type { Identity, IdentityResolver } from '@tributary/identity'
import type { Healer } from '../inquiry/healer.ts'
import type { HostInquiry } from '../inquiry/host-inquiry.ts'
import type { Pipeline } from '../pipeline/pipeline.ts'
import type { Account } from '../state/account.ts'
import { publicStatus } from '../state/account.ts'
import type { AccountAdmin, LocalStatus } from '../state/account-admin.ts'
import type { AccountTable } from '../state/account-table.ts'

export interface AccountControlOptions {
  log: EventLog
  accounts: AccountTable
  pipeline: Pipeline
  resolver: IdentityResolver
  inquiry: HostInquiry
  healer: Healer
}

export class AccountControl implements AccountAdmin {
  readonly #options: AccountControlOptions

  constructor(options: AccountControlOptions) {
    this.#options = options
  }

  async setLocalStatus(did: Did, status: LocalStatus | undefined): Promise<Account | undefined> {
    const account = this.#known(did)
    if (!account) return undefined
    if (account.localStatus !== status) {
      account.localStatus = status
      this.#comeBack(account)
    }
    await this.#options.log.flush()
    return account
  }

  async letIn(account: Account): Promise<void> {
    this.#comeBack(account)
    await this.#options.log.flush()
  }

  async recheck(did: Did): Promise<Account | undefined> {
    const account = this.#known(did)
    if (!account) return undefined
    account.askedAtMs = Date.now()
    const before = account.upstreamStatus
    const status = await this.#options.inquiry.status(did)
    // What an event said meanwhile is newer than the answer.
    if (status !== undefined && account.upstreamStatus === before)
      this.noteStatus(account, account.sourceId, status)
    await this.#options.log.flush()
    return account
  }

  async refreshIdentity(did: Did): Promise<Identity> {
    this.#options.resolver.purge(did)
    return await this.#options.resolver.resolve(did)
  }

  /** What the account's host answered, when it was asked. */
  noteStatus(account: Account, sourceId: number, status: string): void {
    if (status === account.upstreamStatus) return
    this.#options.pipeline.assign(account, sourceId, status)
    this.#comeBack(account)
  }

  /** Says what the account is now. Who is active again may have written meanwhile, which consumers need to know. */
  #comeBack(account: Account): void {
    const { active } = publicStatus(account)
    if (active) account.isDesynchronized = account.isIncomplete = true
    this.#options.pipeline.announce(account)
    if (active) this.#options.healer.add(account)
  }

  #known(did: Did): Account | undefined {
    const account = this.#options.accounts.get(did)
    // Of one that was taken down that may be all that is known, after its state was built anew.
    return account?.sourceId === 0 && account.localStatus === undefined ? undefined : account
  }
}
