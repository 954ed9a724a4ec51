/**
 * The stream, wired: relay → ingest → archive → delivery → subscribers, and the archive over HTTP.
 * Starting opens the state and the archive, shows what a stop left in the log, and only then listens and connects.
 * What is started is stopped in the reverse order, also when a later part cannot start.
 */
import { join } from 'node:path'
import { Fanout, frameText } from '@tributary/fanout'
import { createResolver } from '@tributary/identity'
import { DiskFloor, Operations } from '@tributary/operations'
import { makeDirectory } from '@tributary/settings'
import type { Logger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons, siteOf, type XrpcServer } from '@tributary/xrpc'
import { Archive } from './archive/archive.ts'
import { Backups } from './archive/backups.ts'
import { eventKindOf } from './archive/event-kind.ts'
import { lostSeqsOf, noteNext, requireRepaired } from './archive/lost-rows.ts'
import { BackfillStore } from './backfill/backfill-store.ts'
import { Coverage } from './backfill/coverage.ts'
import { openBackfill } from './backfill/open-backfill.ts'
import { Compaction } from './compaction/compaction.ts'
import { CompactionStore } from './compaction/compaction-store.ts'
import { AccountCorrections } from './ingest/account-corrections.ts'
import { Ingest } from './ingest/ingest.ts'
import { RepoStates } from './ingest/repo-states.ts'
import { IngestReport } from './ingest/report.ts'
import { createStreamMetrics, type StreamMetrics } from './metrics.ts'
import { WatchedCollections } from './policy/watched-collections.ts'
import { EventDictionary } from './delivery/event-dictionary.ts'
import { HiddenAccounts } from './delivery/hidden-accounts.ts'
import { renderError } from './delivery/render.ts'
import { Delivery, type DeliveryOptions } from './delivery/delivery.ts'
import { ApiKeys } from './policy/api-keys.ts'
import { RefusalLog } from './policy/refusal-log.ts'
import { serveArchive } from './serve/archive-methods.ts'
import { coverageReader, serveCoverage } from './serve/coverage-method.ts'
import { serveCoveragePage } from './serve/coverage-page.ts'
import { serveDictionary } from './serve/dictionary-method.ts'
import { serveOperator } from './serve/operator-methods.ts'
import { serveStatus } from './serve/status-routes.ts'
import { serveSubscribe } from './serve/subscribe-method.ts'
import { serveTailPage } from './serve/tail-page.ts'
import type { StreamSettings } from './settings.ts'
import { openStateDatabase } from './state-database.ts'
import { newVerification } from './verify/verification.ts'

export interface StreamService extends AsyncDisposable {
  /** Where it answers. */
  readonly address: string
}

const megabyte = 1024 * 1024
const hourMs = 3_600_000
/** Connections at a time beside those of subscribers: in all, and from one address. */
const otherConnectionsMax = 10_000
const otherConnectionsPerAddressMax = 500
/** Subscriptions name up to 10,000 DIDs in their query. */
const headerBytesMax = megabyte
/** What a page of another origin needs to read the archive in parts. */
const cors = {
  allowHeaders: ['authorization', 'content-type', 'if-none-match', 'if-range', 'range'],
  exposeHeaders: [
    'Accept-Ranges',
    'Content-Range',
    'ETag',
    'Last-Modified',
    'Retry-After',
    'Tributary-Pending',
    'X-Zstd-Dictionary-Id',
  ],
}
const subprotocol = 'xrpc.v1.json'
/** Rows of so many bytes are rendered in some two milliseconds. */
const replayBytesPerRead = 64 * 1024

export async function startStream(
  settings: StreamSettings,
  { logger }: { logger: Logger },
): Promise<StreamService> {
  const { dataDirectory, allowedPrivateHosts, plcUrl } = settings
  await using resources = new AsyncDisposableStack()
  makeDirectory(dataDirectory)
  const metrics = createStreamMetrics()
  const database = openStateDatabase(join(dataDirectory, 'state.sqlite'))
  resources.defer(() => void database.close())
  requireRepaired(database)
  const states = new RepoStates(database)
  const watched = new WatchedCollections(database, settings.collections, Date.now())
  warnOfChange(logger, settings.collections, watched)
  const operations = new Operations(database)
  const keys = new ApiKeys(database, settings.apiKeys)

  const { archive, recovered } = await Archive.open({
    directory: dataDirectory,
    covered: states.covered,
    segmentBytesMax: settings.segmentMegabytesMax * megabyte,
    segmentAgeMsMax: settings.segmentAgeHoursMax * hourMs,
    onFailure: fail,
  })
  resources.defer(() => archive.close())
  noteNext(database, recovered.newestSeq, recovered.nextSeq)
  const server = createServer(settings, logger)
  resources.defer(() => server.close())
  const fanout = createFanout(settings, metrics, logger)
  resources.defer(() => fanout.close())
  const hidden = new HiddenAccounts(states.hidden(), states.covered.appliedSeq)
  for (const row of recovered.unapplied) hidden.note(row)
  const lost = lostSeqsOf(database)
  const delivery = new Delivery({
    segments: archive.segments,
    fanout,
    hidden,
    lost,
    tailBytesMax: settings.tailMegabytes * megabyte,
    cacheBytesMax: settings.blockCacheMegabytes * megabyte,
    ...unreadable(metrics, logger),
  })
  delivery.publish(recovered.pending)
  archive.onVisible((rows) => {
    for (const { row } of rows) metrics.rowShown(eventKindOf(row.kind))
    delivery.publish(rows)
  })
  archive.onBlockWritten((seq) => delivery.coveredByBlocks(seq))
  archive.boundTail(() => delivery.isTailFull())
  logger.info(
    {
      headSeq: delivery.headSeq,
      recovered: recovered.pending.length,
      segmentBytesCut: recovered.segmentBytesCut,
    },
    'the archive is open',
  )

  const report = new IngestReport(logger, metrics)
  const resolver = createResolver({ plcUrl, allowedPrivateHosts, store: states.identities })
  const verification = newVerification({ workers: settings.workers, watched: () => watched.names() })
  verification.onThreadDied((error) =>
    logger.error({ err: error }, 'a verifying thread has died; another one takes its place'),
  )
  const ingest = new Ingest({
    relayUrl: settings.relayUrl,
    checks: settings.verify === 'full' ? { resolver, verification } : undefined,
    watched,
    states,
    sink: archive,
    unapplied: recovered.unapplied,
    unappliedOfBackfill: recovered.unappliedOfBackfill,
    observer: report,
  })
  resources.defer(() => ingest.close())
  const diskFloor = new DiskFloor({
    directory: dataDirectory,
    freeMbMin: () => settings.diskFreeMegabytesMin,
    reading: 'the relay is',
    onChange: (isBelow) => archive.setTooLittleDisk(isBelow),
    logger,
  })
  resources.defer(() => diskFloor.close())
  await diskFloor.look()
  const store = new BackfillStore(database)
  const headSeq = (): number => delivery.headSeq
  const corrections = new AccountCorrections({ states, hidden, sink: archive, observer: report })
  const parts = { settings, database, store, states, watched, ingest, resolver, metrics, logger, headSeq }
  const backfill = openBackfill({ ...parts, corrections, onFailure: fail })
  resources.use(backfill)
  report.onWindowMissed(() => backfill.windowMissed())
  report.whenActive((did) => backfill.noteActive(did))

  const compactionStore = new CompactionStore(database)
  const refusals = new RefusalLog(database, states)
  report.whenRefused((refusal) => refusals.note(refusal))
  report.whenTakenDown((did) => compactionStore.noteTakedown(states, did))
  const compaction = new Compaction({
    archive,
    store: compactionStore,
    states,
    everyMs: settings.compactionHours * hourMs,
    bytesPerSecond: settings.compactionMegabytesPerSecond * megabyte,
    logger,
    onDropped: () => delivery.forgetArchived(),
    onFailure: fail,
  })
  resources.defer(() => compaction.close())

  const isCompatible = settings.compat === 'on'
  const { segments } = archive
  const dictionary = new EventDictionary()
  serveDictionary(server, { dictionary, isCompatible })
  serveSubscribe(server, {
    segments,
    delivery,
    fanout,
    watched,
    dictionary,
    isCompatible,
    lookBackMs: settings.lookBackHours * hourMs,
    lost,
    subscribersMax: settings.subscribersMax,
    subscribersPerAddressMax: settings.subscribersPerAddressMax,
  })
  const onRequest = (method: string): void => metrics.archiveRequest(method)
  serveArchive(server, {
    segments,
    keys,
    cacheSeconds: settings.segmentCacheSeconds,
    isCompatible,
    isPending: (segment) => compaction.isPending(segment),
    onRequest,
  })
  const { operatorToken } = settings
  const coverage = new Coverage({ store, backfill, watched, states, headSeq })
  const readCoverage = coverageReader(coverage, compaction)
  serveCoverage(server, readCoverage)
  serveCoveragePage(server, readCoverage)
  serveTailPage(server)
  if (operatorToken !== undefined)
    serveOperator({
      server,
      archive,
      watched,
      operations,
      operatorToken,
      backfill,
      store,
      states,
      keys,
      compaction,
      fanout,
      refusals,
      backups: new Backups({ dataDirectory, database, archive }),
      logger,
    })
  serveStatus(server, { metrics, archive, delivery, fanout, ingest, report, states, compaction, diskFloor })

  const { url } = await server.listen({ host: settings.host, port: settings.port })
  ingest.start()
  if (settings.backfill === 'on') backfill.start()
  compaction.start()
  const started = resources.move()
  return { address: url, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

function createServer(settings: StreamSettings, logger: Logger): XrpcServer {
  return createXrpcServer({
    lexicons: loadLexicons(),
    logger,
    headerBytesMax,
    connectionsMax: settings.subscribersMax + otherConnectionsMax,
    connectionsPerAddressMax: settings.subscribersPerAddressMax + otherConnectionsPerAddressMax,
    trustedProxies: settings.trustedProxies,
    serverHeader: 'tributary',
    cors,
  })
}

function createFanout(settings: StreamSettings, metrics: StreamMetrics, logger: Logger): Fanout {
  return new Fanout({
    errorFrame: (error, message) => frameText(renderError(error, message)),
    clientMessages: 'refuse',
    ...(settings.subscriberLagMax > 0 && { lagMax: settings.subscriberLagMax }),
    networkOf: siteOf,
    protocols: [subprotocol],
    readBytesMax: replayBytesPerRead,
    onEnded: (info, reason) => {
      metrics.subscriberEnded(reason.error)
      logger.info({ ...info, error: reason.error, reason: reason.message }, 'subscriber ended')
    },
    onFault: (error) => logger.error({ err: error }, 'a subscriber could not be served'),
  })
}

/** What cannot be shown of the archive is counted and logged, and readers pass over it. */
function unreadable(
  metrics: StreamMetrics,
  logger: Logger,
): Pick<DeliveryOptions, 'onUnreadableRow' | 'onUnreadableBlock'> {
  return {
    onUnreadableRow: (seq, error) => {
      metrics.rowUnreadable()
      logger.error({ seq, err: error }, 'a row of the archive cannot be shown')
    },
    onUnreadableBlock: ({ minSeq, maxSeq }, error) => {
      metrics.blockUnreadable()
      logger.error({ minSeq, maxSeq, err: error }, 'a block of the archive is damaged; readers pass over it')
    },
  }
}

/** What is watched is policy of the data directory. Somebody who changes the setting, and has not changed the policy, has to be told. */
function warnOfChange(logger: Logger, wished: readonly string[], watched: WatchedCollections): void {
  if (watched.revision > 1) return
  const [wishes, names] = [new Set(wished), watched.names()]
  const [added, removed] = [wishes.difference(names), names.difference(wishes)].map((some) => [...some])
  if (!added?.length && !removed?.length) return
  const said =
    'the setting collections has changed and is not followed, because it is for new data directories only: use tributary stream collections'
  logger.warn({ added, removed }, said)
}

/** Going on after a failed disk could show or acknowledge what is not stored. */
function fail(error: Error): void {
  throw new Error(`the stream cannot go on: ${error.message}`, { cause: error })
}
