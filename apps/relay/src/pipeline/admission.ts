/**
 * What needs memory of the account, at the moment of logging: whether it may be heard, and whether a verified commit or
 * sync continues what is known. Nothing here waits or asks.
 */
import type { RelayRefusal } from '../refusals.ts'
import type { Account } from '../state/account.ts'
import type { Verified } from '../verify/verify-messages.ts'

/** Commits that do not continue what is stored, above which those of an account wait for the next window. */
const breaksMax = { count: 100, windowMs: 86_400_000 }

/** Why this relay leaves an account out, whatever its host says. Undefined when it does not. */
export function exclusionOf({ localStatus, throttledAtMs }: Account): RelayRefusal | undefined {
  if (localStatus !== undefined) return 'account-excluded'
  return throttledAtMs > 0 ? 'over-quota' : undefined
}

/** Why an event does not follow what is stored of its account. Undefined when it does, or when it may break the chain. */
export function chainRefusalOf(
  account: Account,
  { kind, rev, data, prevData }: Verified,
  isStrict: boolean,
): RelayRefusal | undefined {
  if (account.rev === undefined) return undefined
  if (kind === 'commit') {
    if (rev <= account.rev) return 'rev-not-increasing'
    return prevData === undefined && isStrict ? 'missing-prev-data' : undefined
  }
  if (rev < account.rev) return 'rev-not-increasing'
  if (rev > account.rev) return undefined
  if (data !== account.data) return 'forked'
  // What was missed while the account was away cannot be told: the same state again then says that it is whole.
  return account.isDesynchronized ? undefined : 'rev-not-increasing'
}

/** Whether a commit continues what is stored. Hosts from before Sync 1.1 tell only the revision before. */
export function continues(account: Account, { prevData, since }: Verified): boolean {
  if (account.rev === undefined) return true
  return since === account.rev && (prevData === undefined || prevData === account.data)
}

/** Counts a break of the chain. False when the account has had too many of them. */
export function noteBreak(account: Account, nowMs: number): boolean {
  account.breaks ??= { count: 0, sinceMs: nowMs, areTooMany: false }
  return ++account.breaks.count <= breaksMax.count
}

/** What is kept of an account that had too many breaks by then. */
export function heldBackSince(timeMs: number): NonNullable<Account['breaks']> {
  return { count: breaksMax.count + 1, sinceMs: timeMs, areTooMany: true }
}

/** Until when an account that has had too many breaks is not asked for what it missed. 0 when it has not. */
export function heldBackUntilMs({ breaks }: Account): number {
  return breaks?.areTooMany === true ? breaks.sinceMs + breaksMax.windowMs + 1 : 0
}

/** Forgets breaks whose window is over. True when the account was held back for them until now. */
export function forgetOldBreaks(account: Account, nowMs: number): boolean {
  const { breaks } = account
  if (!breaks || nowMs - breaks.sinceMs <= breaksMax.windowMs) return false
  account.breaks = undefined
  return breaks.areTooMany
}
