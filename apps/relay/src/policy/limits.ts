import type { SourcePolicy } from './source-policy.ts'

/** What an operator may change for the whole relay while it runs. Seeded from the settings on an empty data directory. */
export interface RelayLimits {
  /** `open`: a crawl request may admit a new PDS. */
  admission: 'approved' | 'open'
  /** Accounts that may be active at a time on a source without a quota of its own. */
  accountQuota: number
  /** New sources in any 24 hours. */
  newSourcesPerDay: number
  /** Messages read in a second from a source without a rate of its own. */
  sourceEventsPerSecond: number
  /** Messages read in a second from all sources together. */
  eventsPerSecond: number
  /** Hosts, exact or `*.suffix`, that are trusted when they are added. */
  trustedHosts: readonly string[]
  /** Reading pauses when the disk of the data directory has less than this free. */
  diskFreeMbMin: number
}

/** The limits of a relay that starts on an empty data directory. */
export function limitsOf(settings: RelayLimits): RelayLimits {
  const { admission, accountQuota, newSourcesPerDay, sourceEventsPerSecond, eventsPerSecond } = settings
  const { trustedHosts, diskFreeMbMin } = settings
  return {
    admission,
    accountQuota,
    newSourcesPerDay,
    sourceEventsPerSecond,
    eventsPerSecond,
    trustedHosts,
    diskFreeMbMin,
  }
}

const trusted = { accountQuota: 10_000_000, eventsPerSecond: 5000 }

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

/** Messages that are read in a second from a source. */
export function eventsPerSecondOf(policy: SourcePolicy, limits: RelayLimits): number {
  const isWide = policy.isTrusted || policy.kind === 'relay'
  const standard = limits.sourceEventsPerSecond
  return policy.eventsPerSecond ?? (isWide ? Math.max(trusted.eventsPerSecond, standard) : standard)
}

/** Whether a host is one of the trusted: `pds.example.com` alone, or `*.example.com` for every name below it. */
export function isTrustedHost(host: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) =>
    pattern.startsWith('*.') ? host.endsWith(pattern.slice(1).toLowerCase()) : host === pattern.toLowerCase(),
  )
}
