import type { Did } from '@tributary/protocol'
import type { Identity } from '@tributary/identity'
import type { Account } from './account.ts'

/** What an operator may do to an account, whatever its host says. */
export type LocalStatus = 'takendown' | 'suspended'

/** What operators and quotas do to accounts. Every change is logged as events, and durable when its promise resolves. */
export interface AccountAdmin {
  /** Excludes an account, or lifts that. Undefined when no event of the account has passed here. */
  setLocalStatus(did: Did, status: LocalStatus | undefined): Promise<Account | undefined>
  /**
   * An account that was over its host's quota has a slot now: logs `#account`. The `#sync` of its current commit follows
   * by itself when its host has given that, which may take long and is not waited for.
   */
  letIn(account: Account): Promise<void>
  /** Asks the account's host for its status, and applies what changed. Undefined when the account is unknown. */
  recheck(did: Did): Promise<Account | undefined>
  /** Reads the account's DID document again. @throws IdentityError */
  refreshIdentity(did: Did): Promise<Identity>
}
