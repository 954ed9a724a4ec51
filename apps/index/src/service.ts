/**
 * The index: follows the stream and the trusted labelers and keeps the database that the feed reads. This file wires
 * the parts that outlast a generation of the database; what works on one generation is in `generation/serve.ts`.
 */
import { dirname } from 'node:path'
import { createStreamClient, type StreamClient } from '@tributary/client/node'
import { openGenerations, openIndexReader, openIndexWriter } from '@tributary/index-store'
import { createRecordViews } from '@tributary/record-view'
import { makeDirectory, type RunningService, type ServiceContext } from '@tributary/settings'
import { loadLexicons } from '@tributary/xrpc'
import type { StreamProgress } from './consume/stream-consumer.ts'
import { Fold } from './fold/fold.ts'
import { sourceOf } from './fold/followed-stream.ts'
import { NewStream } from './generation/new-stream.ts'
import { openPresent } from './generation/open-present.ts'
import {
  type Next,
  rebuildWhenAsked,
  replacedKeptMs,
  standstillMs,
  tryAgainMs,
} from './generation/rebuild.ts'
import { Removal } from './generation/removal.ts'
import { createWatchers, serveGeneration } from './generation/serve.ts'
import { createIndexMetrics } from './serve/index-metrics.ts'
import { createStatusServer } from './serve/status-server.ts'
import type { IndexSettings } from './settings.ts'

/** Rows that one author may have made again where its event stands, and at a time beside the events: some 20 ms on SQLite. */
const besideRows = 2000

/** Starts the index. It is ready when its database is; how far it has come, `/ready` tells. */
export async function startIndex(
  settings: IndexSettings,
  { logger, signal }: ServiceContext,
): Promise<RunningService> {
  const place = settings.databaseUrl ?? settings.databasePath
  if (settings.databaseUrl === undefined) makeDirectory(dirname(settings.databasePath))
  const generations = openGenerations(place)
  const openWriter = (generation: number) => openIndexWriter(place, { generation })
  let served: Next = await openPresent(generations, openWriter)
  const stopping = new AbortController()
  const until = AbortSignal.any([signal, stopping.signal])

  const policy = { updateContentTypes: settings.updateContentTypes }
  const views = createRecordViews(loadLexicons())
  let progress: StreamProgress | undefined
  let rebuilding: StreamProgress | undefined
  let isPreparing = true
  const status = {
    generation: () => served.number,
    progress: () => progress,
    rebuilding: () => rebuilding,
    isPreparing: () => isPreparing,
  }
  const reader = openIndexReader(place)
  const metrics = createIndexMetrics({ ...status, reader, logger })
  const watchers = createWatchers(settings, metrics, logger)
  const server = createStatusServer({ logger, metrics, ...status })
  const { url } = await server.listen(settings)
  const newStream = new NewStream({
    afterMs: settings.newStreamMinutes * 60_000,
    onHeldBack: metrics.newStreamHeldBack,
    logger,
  })

  const removal = new Removal({ generations, onLeft: metrics.generationLeft, tryAgainMs, logger })

  const newClient = (): StreamClient =>
    createStreamClient({
      url: settings.streamUrl,
      nsidPrefix: settings.streamNamespace,
      ...(settings.apiKey !== undefined && { apiKey: settings.apiKey }),
    })

  /** Serves one generation after the other. */
  const run = async (): Promise<void> => {
    while (!until.aborted) {
      const { number, writer } = served
      const replaced = new AbortController()
      const fold = new Fold(writer, policy, views, { besideRows })
      const work = serveGeneration(
        { settings, writer, fold, client: newClient(), metrics, logger, ...watchers },
        (now) => (progress = now),
        (is) => (isPreparing = is),
        AbortSignal.any([until, replaced.signal]),
      )
      const rebuild = rebuildWhenAsked(
        {
          number,
          writer,
          progress: () => progress,
          async stop() {
            replaced.abort()
            await work
          },
        },
        {
          generations,
          openWriter,
          newClient,
          source: sourceOf(settings.streamUrl),
          policy,
          views,
          besideRows,
          logger,
          onProgress: (now) => (rebuilding = now),
          onUnreadable: metrics.unreadable,
          removal,
          newStream,
          replacedKeptMs,
          standstillMs,
          tryAgainMs,
        },
        until,
      )
      const [next] = await Promise.all([rebuild, work])
      if (next === undefined) return
      served = next
      if (next.writer !== writer) await writer[Symbol.asyncDispose]()
    }
  }
  // It ends by a fault of the database only, and then the process must: it is left unhandled on purpose.
  const finished = run()

  return {
    address: url,
    async [Symbol.asyncDispose]() {
      stopping.abort()
      await finished
      await server.close()
      await reader[Symbol.asyncDispose]()
      await served.writer[Symbol.asyncDispose]()
      await generations[Symbol.asyncDispose]()
    },
  }
}
