import type { Archive } from '../archive/archive.ts'
import { type HiddenAccounts, isHidden, leavesArchive } from '../delivery/hidden-accounts.ts'
import type { IngestObserver } from './ingest-observer.ts'
import type { RepoState, RepoStates } from './repo-states.ts'

/** What a relay answers of an account when it is asked. */
export interface AccountWord {
  active: boolean
  status: string | undefined
}

export interface AccountCorrectionsOptions {
  states: RepoStates
  /** Whose records readers are not shown. */
  hidden: Pick<HiddenAccounts, 'set'>
  sink: Pick<Archive, 'whenDurable'>
  observer: Pick<IngestObserver, 'onTakedown' | 'onActive' | 'onNotice'>
}

/**
 * Corrects who is hidden, where the `#account` event that said so never came. No row tells of it: nothing is written in the
 * name of an account but what its host sent.
 */
export class AccountCorrections {
  readonly #options: AccountCorrectionsOptions

  constructor(options: AccountCorrectionsOptions) {
    this.#options = options
  }

  /** @param seen `accountSeen` before the relay was asked. An event that came since may know better than its answer. */
  async correct(did: string, word: AccountWord, seen: string): Promise<void> {
    const { states, hidden, sink, observer } = this.#options
    if (!isNews(word, states.get(did))) return
    // Rows on their way to readers say how the account was before.
    await sink.whenDurable()
    const state = states.get(did)
    if (!state || state.accountSeen !== seen || !isNews(word, state)) return
    const isDown = isHidden(word)
    const isTakenDown = leavesArchive(word)
    states.set(did, { ...state, isHidden: isDown, isTakenDown })
    // Tell readers at once, because live events that were not shown to them do not come again.
    hidden.set(did, isDown)
    observer.onNotice({ is: 'account-corrected', did, ...word })
    if (isDown) {
      // As after an event: what a backfill wrote that was stopped on its way may leave the archive too.
      states.archived.forget(did)
      // A compaction learns of deleted accounts by rows, and there is none here.
      if (isTakenDown) observer.onTakedown?.(did)
    } else {
      if (state.rev !== '' || state.backfillRev !== '') states.mark(did)
      observer.onActive?.(did)
    }
  }
}

/**
 * Whether the relay's answer differs from the state. Its own reasons, such as `throttled`, neither hide nor show an account.
 * An account that is hidden for another reason may have been taken down since.
 */
function isNews(word: AccountWord, state: Readonly<RepoState> | undefined): boolean {
  if (!state?.isHidden) return state !== undefined && isHidden(word)
  return word.active || (leavesArchive(word) && !state.isTakenDown)
}
