import type { EventLog } from '@tributary/event-log'
import type { IdentityError, IdentityResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { RefusalReason } from '@tributary/repo-verify'
import type { AccountRecovery } from '../accounts/account-recovery.ts'
import type { HostInquiry } from '../inquiry/host-inquiry.ts'
import type { OnRefused, RelayRefusal } from '../refusals.ts'
import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'
import type { AccountTable } from '../state/account-table.ts'
import type { StateTrail } from '../state/state-trail.ts'

/** What the pipeline needs, and whom it tells of what it meets. */
export interface PipelineOptions {
  log: EventLog
  accounts: AccountTable
  resolver: IdentityResolver
  /** Asks the hosts of accounts what they say now. */
  inquiry: HostInquiry
  trail: StateTrail
  workers: number
  /** Whether sources without a rule of their own are held to Sync 1.1. */
  strict: boolean
  /** How long events wait for the identity of their account. */
  identityWaitMsMax: number
  /** Why nothing counts that other relays forward of a PDS: the relay reads it itself, or has banned it. */
  refusalOfForwarded: (host: string) => RelayRefusal | undefined
  onRefused: OnRefused
  /** So many accounts of a source wait for their identities that it should not be read for now, or no longer. */
  onManyWaiting: (source: Source, areMany: boolean) => void
  onReceived: (source: Source, type: string, bytes: number) => void
  /** How long a record took from being appended to being durable, for about one in each sync. */
  onDurable: (tookMs: number) => void
  /** A lenient source was let off a rule. */
  onWaived: (source: Source, reason: RefusalReason) => void
  /** A commit passed that does not continue what is stored. */
  onDiscontinuity: (source: Source) => void
  /** A source is to be read no further for a moment, or is to be read again. */
  onBreak: (source: Source, isPaused: boolean) => void
  /** Reading a DID document failed; it is tried again while the lane waits. */
  onIdentityFault: (did: Did, error: IdentityError) => void
  /** Whether an account is shown may have changed. */
  onStatus: (account: Account) => void
  /** Makes up for events of accounts that were left out here. */
  recovery: Pick<AccountRecovery, 'missing'>
}
