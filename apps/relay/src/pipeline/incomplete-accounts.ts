import type { Source } from '../sources/source.ts'
import type { Account } from '../state/account.ts'
import { heldBackUntilMs } from './admission.ts'
import type { PipelineOptions } from './pipeline-options.ts'

/**
 * Accounts of which events were left out here, for no fault of theirs or for too many: marked, so that their current
 * commit is fetched, and the mark stored no later than the cursor of the source passes those events.
 */
export class IncompleteAccounts {
  readonly #options: Pick<PipelineOptions, 'log' | 'trail' | 'recovery'>
  readonly #announce: (account: Account) => void

  constructor(
    options: Pick<PipelineOptions, 'log' | 'trail' | 'recovery'>,
    announce: (account: Account) => void,
  ) {
    this.#options = options
    this.#announce = announce
  }

  /** What has been marked is stored together with this seq of ours, or before. */
  get storedBy(): number {
    const { log } = this.#options
    return log.pendingBytes === 0 ? log.visibleSeq : log.nextSeq - 1
  }

  mark(account: Account, { host: cause }: Source): void {
    // Of those that nobody has spoken for only so many are kept as can be asked for.
    if (!this.#options.recovery.missing(account, { cause }) && account.sourceId === 0) return
    account.isDesynchronized = account.isIncomplete = true
    this.#store(account)
  }

  /** Marks an account when the source that speaks for it is the one whose events were left out before that was known. */
  noteSpeaker(account: Account, source: Source): void {
    const { missedSourceId } = account
    if (missedSourceId === 0) return
    account.missedSourceId = 0
    if (missedSourceId === source.id) this.mark(account, source)
  }

  /** Commits that break the chain are left out until the window is over, which consumers are told once. */
  holdBack(account: Account, { host: cause }: Source): void {
    const { breaks, isIncomplete } = account
    if (!breaks || (breaks.areTooMany && isIncomplete)) return
    account.isDesynchronized = account.isIncomplete = true
    if (breaks.areTooMany) this.#store(account)
    else {
      breaks.areTooMany = true
      this.#announce(account)
    }
    this.#options.recovery.missing(account, { cause, notBeforeMs: heldBackUntilMs(account) })
  }

  #store(account: Account): void {
    this.#options.trail.push(this.storedBy, account)
  }
}
