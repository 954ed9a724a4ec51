/** How often the commits of an account may break its chain, before they are left out for the rest of a day. */
import type { Account } from '../state/account.ts'

const breaksMax = { count: 100, windowMs: 86_400_000 }

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
export function heldBackUntilMs({ breaks }: Account, nowMs: number): number {
  if (breaks?.areTooMany !== true) return 0
  // The clock may have been ahead when they began.
  return Math.min(breaks.sinceMs, nowMs) + breaksMax.windowMs + 1
}

/** Forgets breaks whose window is over. True when the account was held back for them until now. */
export function forgetOldBreaks(account: Account, nowMs: number): boolean {
  const { breaks } = account
  if (breaks && breaks.sinceMs > nowMs) breaks.sinceMs = nowMs
  if (!breaks || nowMs - breaks.sinceMs <= breaksMax.windowMs) return false
  account.breaks = undefined
  return breaks.areTooMany
}
