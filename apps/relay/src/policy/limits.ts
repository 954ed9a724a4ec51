import type { EventRates } from '../sources/source-rate.ts'
import type { RelayLimits } from './relay-limits.ts'
import type { SourcePolicy } from './source-policy.ts'

/** What trusted hosts and other relays may do, where the relay's default is not more. */
const trusted = {
  accountQuota: 10_000_000,
  rates: { perSecond: 5000, perHour: 50_000_000, perDay: 500_000_000 },
}

/** What each account of a source's quota adds to its rates. */
const perAccount = { perHour: 1, perDay: 10 }

/** Accounts that may be active at a time on a source. */
export function accountQuotaOf(policy: SourcePolicy, limits: RelayLimits): number {
  if (policy.kind === 'relay') return Infinity
  return policy.accountQuota ?? (policy.isTrusted ? trusted.accountQuota : limits.accountQuota)
}

/** Part of a quota at which somebody should look at it, before it bites. */
const nearShare = 0.8

export function isQuotaNear(accountCount: number, quota: number): boolean {
  return accountCount >= quota * nearShare
}

/** Messages that are read from a source. They follow its account quota, at once when that is changed. */
export function eventRatesOf(policy: SourcePolicy, limits: RelayLimits): EventRates {
  const quota = accountQuotaOf(policy, limits)
  const wide = policy.isTrusted || policy.kind === 'relay' ? trusted.rates : ordinary
  const window = (own: number | undefined, common: number, each: number, atLeast: number): number => {
    const max = own ?? (common === 0 ? 0 : Math.max(common + quota * each, atLeast))
    return max === 0 ? Infinity : max
  }
  return {
    perSecond: policy.eventsPerSecond ?? Math.max(limits.sourceEventsPerSecond, wide.perSecond),
    perHour: window(policy.eventsPerHour, limits.sourceEventsPerHour, perAccount.perHour, wide.perHour),
    perDay: window(policy.eventsPerDay, limits.sourceEventsPerDay, perAccount.perDay, wide.perDay),
  }
}

const ordinary = { perSecond: 0, perHour: 0, perDay: 0 }

/** Whether a host is one of the trusted: `pds.example.com` alone, or `*.example.com` for every name below it. */
export function isTrustedHost(host: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) =>
    pattern.startsWith('*.') ? host.endsWith(pattern.slice(1).toLowerCase()) : host === pattern.toLowerCase(),
  )
}
