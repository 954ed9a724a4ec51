/**
 * What the event log calls each record. Stored on disk: numbers are never given a new meaning.
 *
 * An `#account` is logged as this relay says it. Where that is not what the host says, the kind tells what the host says,
 * so that the two can be told apart again when the log is folded.
 */
import type { AccountBound } from '@tributary/repo-verify'
import type { Account } from '../state/account.ts'

export const recordKinds: Record<AccountBound['kind'], number> = {
  commit: 1,
  sync: 2,
  identity: 3,
  account: 4,
}

/** `#sync` after which more was left out, or after our question to the host: the account stays marked. */
export const partialSyncKind = 6

/** `#account` of an account that its host calls active and has no slot for. */
const throttledKind = 5
/** `#account` of an account that our operator excluded: this plus the index of what its host says. */
const excludedKind = 32
const statuses = ['inactive', 'active', 'deactivated', 'deleted', 'suspended', 'takendown']

/** The kind of an `#account` record that says the account's public status. */
export function accountKind({ localStatus, throttledAtMs, upstreamStatus }: Account): number {
  if (localStatus !== undefined) return excludedKind + Math.max(0, statuses.indexOf(upstreamStatus))
  return throttledAtMs > 0 ? throttledKind : 4
}

/** What the host said by an `#account` record that says `said`, and who else decided. Undefined for other kinds. */
export function readAccountKind(
  kind: number,
  said: string,
): { upstreamStatus: string; isThrottled: boolean; isExcluded: boolean } | undefined {
  if (kind === 4) return { upstreamStatus: said, isThrottled: false, isExcluded: false }
  if (kind === throttledKind) return { upstreamStatus: 'active', isThrottled: true, isExcluded: false }
  const upstreamStatus = statuses[kind - excludedKind]
  return upstreamStatus === undefined ? undefined : { upstreamStatus, isThrottled: false, isExcluded: true }
}

/** Whether a record holds what an account wrote, which is left out while the account is hidden. */
export function isContent(kind: number): boolean {
  return kind === 1 || kind === 2 || kind === partialSyncKind
}
