import { programVersion } from '@tributary/settings'
import type { Fanout } from '@tributary/fanout'
import type { DiskFloor } from '@tributary/operations'
import type { XrpcServer } from '@tributary/xrpc'
import type { Archive } from '../archive/archive.ts'
import type { Compaction } from '../compaction/compaction.ts'
import type { Ingest } from '../ingest/ingest.ts'
import type { RepoStates } from '../ingest/repo-states.ts'
import type { IngestReport } from '../ingest/report.ts'
import type { StreamMetrics } from '../metrics.ts'
import type { Delivery } from '../delivery/delivery.ts'

export interface StatusParts {
  metrics: StreamMetrics
  archive: Archive
  delivery: Delivery
  fanout: Fanout
  ingest: Ingest
  report: IngestReport
  states: RepoStates
  compaction: Compaction
  diskFloor: DiskFloor
}

/** Adds what operators and their machines ask: health, readiness, metrics, and a page that says what this is. */
export function serveStatus(server: XrpcServer, parts: StatusParts): void {
  const { metrics, archive, delivery, ingest, report, diskFloor } = parts
  addGauges(parts)
  const version = programVersion()
  const health = () => ({ status: 'ok', version })
  server.route('GET', '/_health', health)
  server.route('GET', '/xrpc/_health', health)
  // The stream is ready without its relay, because it serves what is archived.
  server.route('GET', '/ready', () => ({
    status: 'ready',
    headSeq: delivery.headSeq,
    sealedSeq: archive.segments.sealed.at(-1)?.header.maxSeq ?? 0,
    relay: {
      state: diskFloor.isBelow ? 'paused-disk-floor' : report.connection.is,
      cursor: ingest.cursor,
      newestEventTime: ingest.newestTime,
    },
  }))
  server.route('GET', '/metrics', async ({ reply }) =>
    reply.type(metrics.all.contentType).send(await metrics.all.text()),
  )
  server.route(
    'GET',
    '/',
    () =>
      'Tributary stream: network.social.stream.subscribeEvents and the archive are under /xrpc/, events for a browser under /tail, what the archive has under /coverage\n',
  )
}

function addGauges(parts: StatusParts): void {
  const { metrics, archive, delivery, fanout, ingest, report, states, compaction, diskFloor } = parts
  const gauges: [name: string, help: string, value: () => number][] = [
    ['stream_head_seq', 'Newest seq that subscribers can have', () => delivery.headSeq],
    ['stream_block_seq', 'Newest seq that is in a block', () => archive.blockSeq],
    ['stream_pending_rows', 'Rows that are durable and in no block yet', () => archive.pendingRows],
    ['stream_sealed_segments', 'Sealed segments', () => archive.segments.sealed.length],
    ['stream_upstream_cursor', 'Position at the relay up to which everything is done', () => ingest.cursor],
    [
      'stream_upstream_connected',
      '1 when connected to the relay',
      () => Number(report.connection.is === 'connected'),
    ],
    [
      'stream_reading_paused',
      '1 while the relay is not read for want of disk',
      () => Number(diskFloor.isBelow),
    ],
    ['stream_disk_free_bytes', 'Free disk at the last look', () => diskFloor.freeBytes ?? 0],
    ['stream_waiting_accounts', 'Accounts whose events wait for an identity', () => ingest.waitingAccounts],
    [
      'stream_verify_busy_seconds',
      'Seconds that verifying threads have worked, all together. A lone event is verified without them',
      () => ingest.verifyBusyMs / 1000,
    ],
    ['stream_subscribers', 'Subscribers', () => fanout.size],
    ['stream_filters', 'Distinct filters that somebody is subscribed with', () => delivery.groupCount],
    ['stream_tail_bytes', 'Memory for the newest events', () => delivery.tailBytes],
    [
      'stream_marked_repositories',
      'Repositories that are to be read again, without those of hidden accounts',
      () => states.markedCount(),
    ],
    [
      'stream_pending_takedowns',
      'Accounts that were taken down and may be in segments still',
      () => compaction.report.pendingTakedowns,
    ],
    [
      'stream_compacted_seq',
      'Rows up to this seq supersede nothing any more',
      () => compaction.report.compactedSeq,
    ],
    ['stream_block_cache_bytes', 'Memory for blocks that readers are in', () => delivery.cacheBytes],
  ]
  for (const [name, help, value] of gauges) {
    metrics.all.gauge({ name, help, collect: (gauge) => gauge.set(value()) })
  }
}
