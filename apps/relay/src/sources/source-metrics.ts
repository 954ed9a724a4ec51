import type { DiskFloor } from '@tributary/operations'
import type { Metrics } from '@tributary/telemetry'
import { isQuotaNear } from '../policy/limits.ts'
import type { NoticeLog } from '../policy/notice-log.ts'
import type { PolicyStore } from '../policy/policy-store.ts'
import type { RefusalLog } from '../policy/refusal-log.ts'
import type { AccountTable } from '../state/account-table.ts'
import { freshnessOf } from './freshness.ts'
import type { SourceSet } from './source-set.ts'
import { isConnected } from './source-state.ts'
import type { Source } from './source.ts'

export interface SourceMetricsParts {
  sources: SourceSet
  accounts: AccountTable
  policy: PolicyStore
  refusals: RefusalLog
  notices: NoticeLog
  diskFloor: DiskFloor
}

/** Sources that have a label of their own in a metric: those with the highest values. The rest count as `other`. */
const labelledMax = 100

/** Values of sources, read when metrics are asked for. A metric has a bounded number of hosts as labels. */
export function addSourceMetrics(metrics: Metrics, parts: SourceMetricsParts): void {
  const { sources, accounts, policy, refusals, notices, diskFloor } = parts
  const share = ({ id }: Source) => {
    const quota = sources.quotaOf(id)
    return quota > 0 ? accounts.activeOf(id) / quota : 0
  }
  const perHost: [name: string, help: string, value: (source: Source) => number, isSum: boolean][] = [
    [
      'relay_source_lag_seconds',
      'How far what is read of a source is behind; without a connection it grows with the clock',
      (source) => (source.state === 'banned' ? 0 : source.reading.lagMs / 1000),
      false,
    ],
    [
      'relay_source_down',
      '1 for a source that is to be read and is not connected',
      (source) => Number(source.isWanted && !isConnected(source)),
      true,
    ],
    ['relay_source_accounts', 'Active accounts', ({ id }) => accounts.activeOf(id), true],
    ['relay_source_quota_share', 'Share of the slots for accounts that are held', share, false],
    ['relay_source_pending_events', 'Events received and not done', ({ pending }) => pending, true],
    [
      'relay_source_events_received',
      'Events received since the start',
      ({ eventsReceived }) => eventsReceived,
      true,
    ],
    [
      'relay_source_events_refused',
      'Events refused since the start',
      ({ eventsRefused }) => eventsRefused,
      true,
    ],
    [
      'relay_source_signature_failures',
      'Events refused since the start because their signature is not by the key of their account',
      ({ signatureFailures }) => signatureFailures,
      true,
    ],
    [
      'relay_source_rules_waived',
      'Rules of strict validation that a lenient source was let off since the start',
      ({ rulesWaived }) => rulesWaived,
      true,
    ],
    ['relay_source_seq_gaps', 'Times that numbers were left out since the start', ({ gaps }) => gaps, true],
    [
      'relay_source_losses',
      'Times that events were gone before they were read, since the start',
      ({ losses }) => losses,
      true,
    ],
    [
      'relay_source_epochs',
      'Times that a source is read anew, the first time included',
      ({ epoch }) => epoch,
      false,
    ],
  ]
  for (const [name, help, value, isSum] of perHost) {
    metrics.gauge({
      name,
      help,
      labels: ['host'],
      collect: (gauge) => {
        const rows = [...sources.sources]
          .filter(({ policy: { desired } }) => desired !== 'removed')
          .map((source) => ({ host: source.host, value: value(source) }))
          .toSorted((a, b) => b.value - a.value)
        for (const row of rows.slice(0, labelledMax)) gauge.set({ host: row.host }, row.value)
        const rest = rows.slice(labelledMax)
        const other = isSum ? rest.reduce((sum, row) => sum + row.value, 0) : (rest[0]?.value ?? 0)
        if (rest.length > 0) gauge.set({ host: 'other' }, other)
      },
    })
  }
  const single: [name: string, help: string, value: () => number][] = [
    [
      'relay_sources_quota_near',
      'Sources of which at least 80 % of the slots for accounts are held',
      () => count(sources, ({ id }) => isQuotaNear(accounts.activeOf(id), sources.quotaOf(id))),
    ],
    [
      'relay_lag_seconds',
      'How far the connected source that is furthest behind is behind; with none connected, how long ago the last one was caught up with',
      () => freshnessOf(sources).lagSeconds,
    ],
    ['relay_accounts_throttled', 'Accounts that wait for a slot', () => throttled(sources, accounts)],
    ['relay_new_sources_left', 'New sources that may be added now', () => policy.newSourcesLeft().left],
    ['relay_reading_paused', '1 while no source is read for want of disk', () => Number(diskFloor.isBelow)],
    ['relay_disk_free_bytes', 'Free disk at the last look', () => diskFloor.freeBytes ?? 0],
    ['relay_notices_not_kept', 'Notices that were left out in a flood', () => notices.skipped],
    ['relay_refusals_not_kept', 'Refusals that were counted and not kept', () => refusals.skipped],
  ]
  for (const [name, help, value] of single)
    metrics.gauge({ name, help, collect: (gauge) => gauge.set(value()) })
}

function count(sources: SourceSet, isCounted: (source: Source) => boolean): number {
  return [...sources.sources].filter(isCounted).length
}

function throttled(sources: SourceSet, accounts: AccountTable): number {
  return [...sources.sources].reduce((sum, { id }) => sum + accounts.throttledCountOf(id), 0)
}
