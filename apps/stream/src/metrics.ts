import { createMetrics, type Metrics } from '@tributary/telemetry'
import type { DroppedOpReason } from './ingest/event-rows.ts'
import type { EventRefusal } from './ingest/ingest-observer.ts'

/** What the stream counts. Gauges are added by the service, which knows where their values are. */
export interface StreamMetrics {
  readonly all: Metrics
  eventReceived(kind: string): void
  eventRefused(reason: EventRefusal): void
  opDropped(reason: DroppedOpReason): void
  /** The relay lost events that we had not seen, or a repository's chain broke. */
  gapFound(where: 'relay' | 'repository'): void
  rowShown(kind: string): void
  rowUnreadable(): void
  blockUnreadable(): void
  subscriberEnded(error: string): void
  archiveRequest(method: string): void
  repoRead(outcome: string): void
}

export function createStreamMetrics(): StreamMetrics {
  const all = createMetrics('stream')
  const events = all.counter({
    name: 'stream_upstream_events_total',
    help: 'Messages of the relay that could be read, by kind',
    labels: ['kind'],
  })
  const refused = all.counter({
    name: 'stream_upstream_events_refused_total',
    help: 'Messages of the relay that gave no row, by reason; stale-rev and repeat are harmless',
    labels: ['reason'],
  })
  // There from the start, so that an alert sees the first one as an increase.
  refused.inc({ reason: 'internal-error' }, 0)
  const dropped = all.counter({
    name: 'stream_ops_dropped_total',
    help: 'Operations of good commits that could not be archived, by reason',
    labels: ['reason'],
  })
  const gaps = all.counter({
    name: 'stream_gaps_total',
    help: 'Breaks in what was received: of the relay (its window was missed) or of a repository (its chain broke)',
    labels: ['where'],
  })
  const rows = all.counter({
    name: 'stream_rows_total',
    help: 'Rows shown to subscribers, by kind',
    labels: ['kind'],
  })
  const unreadable = all.counter({
    name: 'stream_rows_unreadable_total',
    help: 'Rows of the archive whose payload cannot be shown',
  })
  const unreadableBlocks = all.counter({
    name: 'stream_blocks_unreadable_total',
    help: 'Blocks of the archive that a reader met and that are damaged; `tributary stream archive verify` names them',
  })
  const ended = all.counter({
    name: 'stream_subscribers_ended_total',
    help: 'Subscribers that were disconnected by the service, by error',
    labels: ['error'],
  })
  const requests = all.counter({
    name: 'stream_archive_requests_total',
    help: 'Authenticated requests to the archive, by method',
    labels: ['method'],
  })
  const repos = all.counter({
    name: 'stream_backfilled_repos_total',
    help: 'Repositories that were read from their PDSs, by what came of it',
    labels: ['outcome'],
  })
  return {
    all,
    eventReceived: (kind) => events.inc({ kind }),
    eventRefused: (reason) => refused.inc({ reason }),
    opDropped: (reason) => dropped.inc({ reason }),
    gapFound: (where) => gaps.inc({ where }),
    rowShown: (kind) => rows.inc({ kind }),
    rowUnreadable: () => unreadable.inc(),
    blockUnreadable: () => unreadableBlocks.inc(),
    subscriberEnded: (error) => ended.inc({ error }),
    archiveRequest: (method) => requests.inc({ method }),
    repoRead: (outcome) => repos.inc({ outcome }),
  }
}
