import type { IdentityValues } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { StoredSource } from '../sources/source.ts'
import type { PackedAccounts } from './account-row.ts'

/** What is written in one transaction. */
export interface StateWrite {
  appliedSeq: number
  /** Accounts without a source that are not needed any more, before `accounts`. */
  forgotten: Did[]
  /** A later state of an account counts in place of an earlier one. */
  accounts: PackedAccounts[]
  /**
   * Collections that accounts have records of, as far as they were not known: those of a commit as one text with spaces
   * between, because a text each would take ten times as long on the way to the thread. Undefined drops all that the
   * account had, because it was deleted. In the order in which it happened.
   */
  collections: [names: string | undefined, did: Did][]
  sources: StoredSource[]
  identities: IdentityValues[]
}
