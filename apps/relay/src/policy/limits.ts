import type { EventRates } from '../sources/source-rate.ts'
import type { SourcePolicy } from './source-policy.ts'

/** What an operator may change for the whole relay while it runs. Seeded from the settings on an empty data directory. */
export interface RelayLimits {
  /** `open`: a crawl request may admit a new PDS. */
  admission: 'approved' | 'open'
  /** `off`: nobody may request a crawl, not even of a source. */
  crawlRequests: 'on' | 'off'
  /** Accounts that may be active at a time on a source without a quota of its own. */
  accountQuota: number
  /** New sources in any 24 hours. */
  newSourcesPerDay: number
  /** Messages read in a second from a source without a rate of its own. */
  sourceEventsPerSecond: number
  /** Messages read in any hour from a source without a limit of its own, beside one for each account of its quota. 0: any number. */
  sourceEventsPerHour: number
  /** The same in any day, beside ten for each account. 0: any number. */
  sourceEventsPerDay: number
  /** Messages read in a second from all sources together. */
  eventsPerSecond: number
  /** Hosts, exact or `*.suffix`, that are trusted when they are added. */
  trustedHosts: readonly string[]
  /** Reading pauses when the disk of the data directory has less than this free. */
  diskFreeMbMin: number
}

/** The limits of a relay that starts on an empty data directory. */
export function limitsOf(settings: RelayLimits): RelayLimits {
  const { admission, crawlRequests, accountQuota, newSourcesPerDay, trustedHosts, diskFreeMbMin } = settings
  const { sourceEventsPerSecond, sourceEventsPerHour, sourceEventsPerDay, eventsPerSecond } = settings
  return {
    admission,
    crawlRequests,
    accountQuota,
    newSourcesPerDay,
    sourceEventsPerSecond,
    sourceEventsPerHour,
    sourceEventsPerDay,
    eventsPerSecond,
    trustedHosts,
    diskFreeMbMin,
  }
}

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

/** Of a quota, from where on somebody should look at it before it bites. */
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
