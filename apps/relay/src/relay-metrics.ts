import type { EventLog } from '@tributary/event-log'
import type { Fanout } from '@tributary/fanout'
import type { Metrics } from '@tributary/telemetry'
import type { RefusalReason } from '@tributary/repo-verify'
import type { RelayRefusal } from './refusals.ts'
import type { SourceSet } from './sources/source-set.ts'
import type { Ending } from './sources/source-socket.ts'
import type { Source } from './sources/source.ts'
import type { AccountTable } from './state/account-table.ts'

export interface RelayMetrics {
  received: (type: string, bytes: number) => void
  refused: (reason: RelayRefusal) => void
  /** A lenient source was let off a rule. */
  waived: (reason: RefusalReason) => void
  discontinuous: () => void
  disconnected: (source: Source, ending: Ending) => void
  synced: (syncMs: number) => void
}

const knownTypes = new Set(['#commit', '#sync', '#identity', '#account', '#info'])

/** Counts on the way of events: kept as plain numbers there, and read when metrics are asked for. */
export function createRelayMetrics(metrics: Metrics): RelayMetrics {
  const events = metrics.counter({
    name: 'relay_events_received_total',
    help: 'Messages received from sources.',
    labels: ['type'],
  })
  const bytes = metrics.counter({
    name: 'relay_bytes_received_total',
    help: 'Bytes of messages received from sources.',
  })
  const refused = metrics.counter({
    name: 'relay_events_refused_total',
    help: 'Events refused, by reason.',
    labels: ['reason'],
  })
  const disconnects = metrics.counter({
    name: 'relay_source_disconnects_total',
    help: 'Connections of sources that ended, by what ended them.',
    labels: ['cause'],
  })
  const waived = metrics.counter({
    name: 'relay_events_waived_total',
    help: 'Rules that lenient sources were let off, by the reason for which strict validation would have refused.',
    labels: ['reason'],
  })
  const discontinuities = metrics.counter({
    name: 'relay_discontinuities_total',
    help: 'Commits that passed and do not continue what is stored of their account.',
  })
  const syncs = metrics.histogram({
    name: 'relay_log_sync_seconds',
    help: 'Time of one sync of the event log.',
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1],
  })
  const perType = new Map<string, { inc: (value?: number) => void }>()
  return {
    received(type, length) {
      const label = knownTypes.has(type) ? type : 'other'
      let counter = perType.get(label)
      if (!counter) perType.set(label, (counter = events.labels(label)))
      counter.inc()
      bytes.inc(length)
    },
    refused: (reason) => refused.labels(reason).inc(),
    waived: (reason) => waived.labels(reason).inc(),
    discontinuous: () => discontinuities.inc(),
    disconnected: (_, { cause = 'other' }) => disconnects.labels(cause).inc(),
    synced: (syncMs) => syncs.observe(syncMs / 1000),
  }
}

/** Values that exist anyway, read when metrics are asked for. */
export function addRelayGauges(
  metrics: Metrics,
  parts: { log: EventLog; fanout: Fanout; sources: SourceSet; accounts: AccountTable },
): void {
  const { log, fanout, sources, accounts } = parts
  metrics.gauge({
    name: 'relay_head_seq',
    help: 'Newest visible seq.',
    collect: (gauge) => gauge.set(log.visibleSeq),
  })
  metrics.gauge({
    name: 'relay_oldest_seq',
    help: 'Oldest seq in the log.',
    collect: (gauge) => gauge.set(log.oldestSeq),
  })
  metrics.gauge({
    name: 'relay_log_bytes',
    help: 'Bytes of the log files that are kept.',
    collect: (gauge) => gauge.set(log.bytes),
  })
  metrics.gauge({
    name: 'relay_log_pending_bytes',
    help: 'Bytes appended to the log and not yet durable.',
    collect: (gauge) => gauge.set(log.pendingBytes),
  })
  metrics.gauge({
    name: 'relay_consumers',
    help: 'Connected consumers.',
    collect: (gauge) => gauge.set(fanout.size),
  })
  metrics.gauge({
    name: 'relay_accounts',
    help: 'Known accounts.',
    collect: (gauge) => gauge.set(accounts.size),
  })
  metrics.gauge({
    name: 'relay_consumer_lag_max',
    help: 'Events that the slowest consumer is behind.',
    collect: (gauge) => gauge.set(Math.max(0, ...fanout.subscribers().map(({ lag }) => lag))),
  })
  metrics.gauge({
    name: 'relay_sources',
    help: 'Sources, by state.',
    labels: ['state'],
    collect: (gauge) => {
      gauge.reset()
      for (const { state } of sources.sources) gauge.inc({ state })
    },
  })
}
