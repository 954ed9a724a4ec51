/** The consequences of attempts in vain: when the next one is made, and after how many a repository is given up. */
import type { JobRepo } from './backfill-store.ts'
import type { FillOutcome } from './repo-fill.ts'
import { retryWait, waitMsMax } from './retry-wait.ts'

/**
 * Attempts at a repository whose host gives nothing that can be used, and at one that stays older than what is known of it,
 * which takes some twenty minutes: nobody may have what its host has lost.
 */
const attemptsMax = { refused: 5, older: 12 }
/** Until somebody is asked again who did not answer; and for what nobody has, which an event or an operator tells sooner. */
const retryMs = { first: 1000, max: 600_000, unavailable: waitMsMax, putOff: 30_000 }

export interface AttemptTimes {
  /** How long events of an account are waited for, in milliseconds. */
  settleMs: number
  nowMs: number
  /** A number from 0 up to 1, by which waits differ. */
  random: () => number
}

/** Gives the note of a job on a repository that it could not make whole. */
export function afterAttempt(
  repo: JobRepo,
  outcome: Exclude<FillOutcome, { is: 'whole' }>,
  { settleMs, nowMs, random }: AttemptTimes,
): JobRepo {
  const attempts = repo.attempts + attemptsOf(outcome)
  const isLiveBehind = outcome.is === 'live-behind'
  const afterMs = isLiveBehind ? settleMs : waitAfter(outcome, attempts, random)
  const detail = isLiveBehind ? 'events of the account are expected' : outcome.detail
  const changed = { ...repo, attempts, detail, nextAtMs: nowMs + afterMs }
  if (outcome.is === 'unavailable') return { ...changed, state: 'unavailable' }
  const isUseless = outcome.is === 'refused' || outcome.is === 'older'
  if (isUseless && attempts >= attemptsMax[outcome.is]) return { ...changed, state: 'failed' }
  return isLiveBehind ? { ...changed, state: 'waiting' } : changed
}

/** Milliseconds until the next attempt, after so many. */
export function waitAfter(outcome: FillOutcome, attempts: number, random: () => number): number {
  // News that make it available again come as an event, or by hand.
  if (outcome.is === 'unavailable') return retryMs.unavailable
  const askedMs = outcome.is === 'later' ? outcome.afterMs : undefined
  if (attemptsOf(outcome) === 0) {
    const { putOff } = retryMs
    return retryWait(0, { first: putOff, max: putOff }, askedMs, random)
  }
  return retryWait(attempts - 1, retryMs, askedMs, random)
}

/** A repository that was put off was not tried: its next wait does not grow, and one bad answer later is not its last. */
export function attemptsOf(outcome: FillOutcome): 0 | 1 {
  return outcome.is === 'later' && outcome.isPutOff === true ? 0 : 1
}
