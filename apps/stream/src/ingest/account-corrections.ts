import type { Archive } from '../archive/archive.ts'
import { type HiddenAccounts, isHidden } from '../delivery/hidden-accounts.ts'
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
    states.set(did, { ...state, isHidden: isDown })
    // At once: readers of live events are not given again what they were not shown.
    hidden.set(did, isDown)
    observer.onNotice({ is: 'account-corrected', did, ...word })
    if (isDown) {
      // As after an event: what a backfill wrote that was stopped on its way may leave the archive too.
      states.archived.forget(did)
      // No row tells a pass that the records of a deleted account are to go.
      if (word.status === 'takendown' || word.status === 'deleted') observer.onTakedown?.(did)
    } else {
      if (state.rev !== '' || state.backfillRev !== '') states.mark(did)
      observer.onActive?.(did)
    }
  }
}

/** A reason of the relay's own says nothing of an account that its host has hidden. */
function isNews(word: AccountWord, state: Readonly<RepoState> | undefined): boolean {
  return state !== undefined && (state.isHidden ? word.active : isHidden(word))
}
