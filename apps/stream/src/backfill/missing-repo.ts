import type { RepoState } from '../ingest/repo-states.ts'
import type { JobRepo } from './backfill-store.ts'
import type { ListedRepo } from './sync-answers.ts'

export interface MissingRepoOptions {
  /** When a collection was added last that still counts, as a revision. */
  newestAddition: number
  /** How long events of an account are waited for before its repository is taken in their place, in milliseconds. */
  settleMs: number
  nowMs: number
}

/** What a job has to do for a repository that its host listed. Undefined when the archive has everything of it. */
export function missingRepo(
  { did, rev, inactive }: ListedRepo,
  state: Readonly<RepoState> | undefined,
  { newestAddition, settleMs, nowMs }: MissingRepoOptions,
): JobRepo | undefined {
  const isKnown = state !== undefined && state.rev !== ''
  const isWhole = isKnown && !state.needsRefetch && state.completeRevision >= newestAddition
  const [isHidden, isDown] = [state?.isHidden === true, inactive !== undefined]
  if (isWhole && rev <= state.rev && isHidden === isDown) return undefined
  const repo = { did, rev, attempts: 0, nextAtMs: nowMs, detail: '' }
  if (isDown) {
    // What is shown of an account that is down here is a matter for the relay, which is asked for each that is read.
    const isNews = state !== undefined && !isHidden
    return { ...repo, state: isNews ? 'pending' : 'unavailable', detail: `its host says ${inactive}` }
  }
  // Its events are on their way, as a rule, and say more.
  const isAhead =
    !isKnown || isHidden || (!state.needsRefetch && state.completeRevision > 0 && rev > state.rev)
  if (isAhead) return { ...repo, state: 'waiting', nextAtMs: nowMs + settleMs }
  return { ...repo, state: 'pending' }
}
