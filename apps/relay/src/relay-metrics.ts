/**
 * What operators see of the relay as a whole. Whatever is counted on the way of events is a plain number there, and
 * becomes a metric when metrics are asked for. No label is anything that others choose.
 */
import type { EventLog } from '@tributary/event-log'
import type { Fanout } from '@tributary/fanout'
import type { IdentityRead } from '@tributary/identity'
import type { RefusalReason } from '@tributary/repo-verify'
import type { Ending } from '@tributary/subscription'
import type { Metrics } from '@tributary/telemetry'
import { countStatuses } from './account-statuses.ts'
import type { Pipeline } from './pipeline/pipeline.ts'
import { relayRefusals, type RelayRefusal } from './refusals.ts'
import { freshnessOf } from './sources/freshness.ts'
import type { SourceSet } from './sources/source-set.ts'
import { hostStatuses } from './sources/source-state.ts'
import type { Source } from './sources/source.ts'
import type { AccountTable } from './state/account-table.ts'

export interface RelayMetrics {
  received: (type: string, bytes: number) => void
  refused: (reason: RelayRefusal) => void
  /** An event of a kind said what was known already. */
  repeated: (kind: string) => void
  /** A lenient source was let off a rule. */
  waived: (reason: RefusalReason) => void
  discontinuous: () => void
  disconnected: (source: Source, ending: Ending) => void
  /** A consumer was ended. */
  ended: (error: string) => void
  /** An event could not be encoded, and the readers of a framing did not get it. */
  notEncoded: (framing: string) => void
  synced: (syncMs: number) => void
  /** A record that was appended so long ago is durable. */
  durable: (tookMs: number) => void
  /** Counted by the resolver. */
  peeks: { found: number; missed: number }
  identityRead: (read: IdentityRead) => void
}

const knownTypes = new Set(['#commit', '#sync', '#identity', '#account', '#info'])
const diskSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]
const fetchSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** What is counted where it happens. */
export function createRelayMetrics(metrics: Metrics): RelayMetrics {
  const counter = (name: string, label: string, help: string) => tally(metrics, { name, label, help })
  const events = counter('relay_events_received_total', 'type', 'Messages received from sources, by type.')
  const bytes = counter('relay_bytes_received_total', 'type', 'Bytes of messages received, by type.')
  const refused = counter('relay_events_refused_total', 'reason', 'Events refused, by reason.')
  // There from the start, so that an alert sees the first ones as an increase.
  for (const reason of relayRefusals) refused(reason, 0)
  const repeated = counter(
    'relay_events_repeated_total',
    'kind',
    'Events that said what was known already, by kind. Each new account of a PDS sends one.',
  )
  const waived = counter(
    'relay_events_waived_total',
    'reason',
    'Rules that lenient sources were let off, by the reason for which strict validation would have refused.',
  )
  const disconnects = counter(
    'relay_source_disconnects_total',
    'cause',
    'Connections of sources that ended, by what ended them.',
  )
  const ended = counter(
    'relay_consumers_ended_total',
    'error',
    'Consumers that were ended, by the error they got.',
  )
  ended('ConsumerTooSlow', 0)
  const notEncoded = counter(
    'relay_events_not_encoded_total',
    'framing',
    'Events that could not be encoded for the readers of a framing, and were left out there.',
  )
  const discontinuities = metrics.counter({
    name: 'relay_discontinuities_total',
    help: 'Commits that passed and do not continue what is stored of their account.',
  })
  const syncs = metrics.histogram({
    name: 'relay_log_sync_seconds',
    help: 'Time of one sync of the event log.',
    buckets: diskSeconds,
  })
  const appends = metrics.histogram({
    name: 'relay_log_append_seconds',
    help: 'Time from an append to the event log until the record is durable, of one record for about each sync.',
    buckets: diskSeconds,
  })
  const peeks = { found: 0, missed: 0 }
  metrics.counter({
    name: 'relay_identity_lookups_total',
    help: 'Looks for an identity in the cache, by whether it was there.',
    labels: ['cache'],
    collect: (lookups) => {
      lookups.inc({ cache: 'hit' }, peeks.found)
      lookups.inc({ cache: 'miss' }, peeks.missed)
    },
  })
  const reads = metrics.histogram({
    name: 'relay_identity_read_seconds',
    help: 'Time to read a DID document, by what came of it and whether an older one was known.',
    labels: ['outcome', 'refresh'],
    buckets: fetchSeconds,
  })
  return {
    received(type, length) {
      const label = knownTypes.has(type) ? type : 'other'
      events(label)
      bytes(label, length)
    },
    refused,
    repeated,
    waived,
    discontinuous: () => discontinuities.inc(),
    disconnected: (_, { cause = 'other' }) => disconnects(cause),
    ended,
    notEncoded,
    synced: (syncMs) => syncs.observe(syncMs / 1000),
    durable: (tookMs) => appends.observe(tookMs / 1000),
    peeks,
    identityRead: ({ outcome, tookMs, isRefresh }) =>
      reads.observe({ outcome, refresh: isRefresh ? 'yes' : 'no' }, tookMs / 1000),
  }
}

/** A counter with one label. Values of the label are few. */
function tally(
  metrics: Metrics,
  { name, help, label }: { name: string; help: string; label: string },
): (value: string, by?: number) => void {
  const counts = new Map<string, number>()
  metrics.counter<string>({
    name,
    help,
    labels: [label],
    collect: (counter) => counts.forEach((count, value) => counter.inc({ [label]: value }, count)),
  })
  return (value, by = 1) => void counts.set(value, (counts.get(value) ?? 0) + by)
}

export interface GaugedParts {
  log: EventLog
  fanout: Fanout
  sources: SourceSet
  accounts: AccountTable
  pipeline: Pipeline
}

/** Values that exist anyway, read when metrics are asked for. */
export function addRelayGauges(metrics: Metrics, parts: GaugedParts): void {
  const { log, fanout, sources, accounts, pipeline } = parts
  const single: [name: string, help: string, value: () => number][] = [
    ['relay_head_seq', 'Newest visible seq.', () => log.visibleSeq],
    ['relay_oldest_seq', 'Oldest seq in the log.', () => log.oldestSeq],
    ['relay_log_bytes', 'Bytes of the log files that are kept.', () => log.bytes],
    ['relay_log_pending_bytes', 'Bytes appended to the log and not yet durable.', () => log.pendingBytes],
    ['relay_consumers', 'Connected consumers.', () => fanout.size],
    ['relay_accounts', 'Known accounts.', () => accounts.size],
    [
      'relay_consumer_lag_max',
      'Events that the slowest consumer is behind.',
      () => fanout.subscribers().reduce((max, { lag }) => Math.max(max, lag), 0),
    ],
    [
      'relay_waiting_accounts',
      'Accounts whose events wait for an identity or a host.',
      () => pipeline.waiting.lanes,
    ],
    ['relay_waiting_events', 'Events that wait for an identity or a host.', () => pipeline.waiting.events],
    [
      'relay_waiting_events_max',
      'Waiting events of the account that has the most.',
      () => pipeline.waiting.eventsMax,
    ],
    ['relay_waiting_bytes', 'Bytes of waiting events.', () => pipeline.waiting.bytes],
    [
      'relay_verify_busy_seconds',
      'Seconds that verifying threads have worked, all together. A lone event is verified without them.',
      () => pipeline.verifyBusyMs / 1000,
    ],
  ]
  for (const [name, help, value] of single)
    metrics.gauge({ name, help, collect: (gauge) => gauge.set(value()) })
  metrics.histogram({
    name: 'relay_consumer_lag',
    help: 'Consumers by how many events they are behind, at the moment of asking.',
    buckets: [0, 10, 100, 1000, 10_000, 100_000, 1_000_000],
    collect: (histogram) => fanout.subscribers().forEach(({ lag }) => histogram.observe(lag)),
  })
  metrics.gauge({
    name: 'relay_sources',
    help: 'Sources, by state; removed ones are left out.',
    labels: ['state'],
    collect: (gauge) => {
      for (const state of Object.keys(hostStatuses)) gauge.set({ state }, 0)
      for (const [state, count] of Object.entries(freshnessOf(sources).sources)) gauge.set({ state }, count)
    },
  })
  metrics.gauge({
    name: 'relay_accounts_by_status',
    help: 'Accounts that a source has spoken for, by what this relay says of them.',
    labels: ['status'],
    collect: async (gauge) => {
      for (const [status, count] of await countStatuses(accounts)) gauge.set({ status }, count)
    },
  })
}
