/**
 * The index: follows the stream and the trusted labelers and keeps the database that the feed reads. This file wires
 * the parts: stream → fold, labelers → label history, identity → handles, hosts → account states.
 */
import { dirname } from 'node:path'
import { createStreamClient } from '@tributary/client/node'
import { createHandleResolver, createResolver } from '@tributary/identity'
import { type IndexWriter, openIndexWriter, parseDatetime } from '@tributary/index-store'
import { type Did, indexedCollections } from '@tributary/protocol'
import { createRecordViews } from '@tributary/record-view'
import { makeDirectory, type RunningService, type ServiceContext } from '@tributary/settings'
import { loadLexicons } from '@tributary/xrpc'
import { consumeStream, type StreamProgress } from './consume/stream-consumer.ts'
import { Fold } from './fold/fold.ts'
import { sourceOf } from './fold/followed-stream.ts'
import { GoneAnswers } from './gone-answers.ts'
import { HandleLookups } from './handles/handle-lookups.ts'
import { HandleRequests } from './handles/handle-requests.ts'
import { consumeLabels } from './labels/label-consumer.ts'
import { LabelStore } from './labels/label-store.ts'
import { createIndexMetrics } from './serve/index-metrics.ts'
import { createStatusServer } from './serve/status-server.ts'
import type { IndexSettings } from './settings.ts'
import { sweepAccounts } from './sweep/account-sweep.ts'

/** Identities that are kept: 16 MB. Each account is looked up once a day, so that more would seldom be used again. */
const identitiesMax = 20_000

/** Starts the index. It is ready when its database is; how far it has come, `/ready` tells. */
export async function startIndex(
  settings: IndexSettings,
  { logger, signal }: ServiceContext,
): Promise<RunningService> {
  const { allowedPrivateHosts, plcUrl, updateContentTypes } = settings
  const writer = await openDatabase(settings)
  const stopping = new AbortController()
  const until = AbortSignal.any([signal, stopping.signal])

  const fold = new Fold(writer, { updateContentTypes }, createRecordViews(loadLexicons()))
  const resolver = createResolver({ plcUrl, allowedPrivateHosts, cacheMax: identitiesMax })
  const requests = new HandleRequests(writer)
  const labels = new LabelStore(writer)
  const source = sourceOf(settings.streamUrl)
  let progress: StreamProgress | undefined

  const metrics = createIndexMetrics({ progress: () => progress, waitingHandles: () => requests.count() })
  const goneAnswers = new GoneAnswers({
    onDoubt(isDoubted) {
      metrics.goneAnswersDoubted(isDoubted)
      if (isDoubted)
        logger.error({ plcUrl }, 'many accounts in a row are said to be gone; none of it is believed')
      else logger.info('accounts are found again')
    },
  })
  const lostNames = new GoneAnswers({
    onDoubt(isDoubted) {
      metrics.lostNamesDoubted(isDoubted)
      if (isDoubted) logger.error('many handles in a row do not point back; none of it is believed')
      else logger.info('handles point back again')
    },
  })
  const lookups = new HandleLookups({
    requests,
    resolver,
    resolveHandle: createHandleResolver({ allowedPrivateHosts, handleHosts: settings.handleHosts }),
    goneAnswers,
    lostNames,
    logger,
    onLookup: (result) => metrics.handleLookedUp(result),
  })
  const server = createStatusServer({ logger, metrics, progress: () => progress })
  const { url } = await server.listen(settings)

  const client = createStreamClient({
    url: settings.streamUrl,
    nsidPrefix: settings.streamNamespace,
    ...(settings.apiKey !== undefined && { apiKey: settings.apiKey }),
  })
  const work = [
    consumeStream({
      client,
      source,
      collections: indexedCollections,
      fold,
      logger,
      signal: until,
      onProgress: (now) => (progress = now),
      onApplied(counts, newestEventTime) {
        metrics.applied(counts, newestEventTime)
        lookups.wake()
      },
    }),
    fold.adopt(until),
    lookups.run(until),
    sweepAccounts(
      {
        writer,
        fold,
        resolver,
        goneAnswers,
        allowedPrivateHosts,
        everyMs: settings.accountCheckHours * 3_600_000,
        isCaughtUp: () => progress?.state === 'live',
        newestEventAt: () => parseDatetime(progress?.newestEventTime),
        logger,
        onChecked: metrics.accountChecked,
      },
      until,
    ),
    ...settings.labelers.map((labeler) =>
      consumeLabels(
        {
          labeler: labeler as Did, // the setting's pattern is that of a DID
          store: labels,
          resolver,
          allowedPrivateHosts,
          logger,
          onLabels: metrics.labelsRead,
          onConnected: metrics.labelerConnection(),
        },
        until,
      ),
    ),
  ]
  // Each of them ends by a fault of the database only, and then the process must: it is left unhandled on purpose.
  const finished = Promise.all(work)

  return {
    address: url,
    async [Symbol.asyncDispose]() {
      stopping.abort()
      await finished
      await server.close()
      await writer[Symbol.asyncDispose]()
    },
  }
}

function openDatabase({ databaseUrl, databasePath }: IndexSettings): Promise<IndexWriter> {
  if (databaseUrl !== undefined) return openIndexWriter(databaseUrl)
  makeDirectory(dirname(databasePath))
  return openIndexWriter(databasePath)
}
