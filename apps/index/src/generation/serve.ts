/**
 * Keeps one generation of the index up to date: stream → fold, labelers → label history, identity → handles,
 * hosts → account states.
 */
import type { StreamClient } from '@tributary/client/node'
import { createHandleResolver, createResolver, type IdentityResolver } from '@tributary/identity'
import { type IndexWriter, parseDatetime } from '@tributary/index-store'
import { type Did, indexedCollections } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { consumeStream, type StreamProgress } from '../consume/stream-consumer.ts'
import type { Fold } from '../fold/fold.ts'
import { sourceOf } from '../fold/followed-stream.ts'
import { GoneAnswers } from '../gone-answers.ts'
import { HandleLookups } from '../handles/handle-lookups.ts'
import { HandleRequests } from '../handles/handle-requests.ts'
import { consumeLabels } from '../labels/label-consumer.ts'
import { LabelStore } from '../labels/label-store.ts'
import { pause } from '../pause.ts'
import type { IndexMetrics } from '../serve/index-metrics.ts'
import type { IndexSettings } from '../settings.ts'
import { sweepAccounts } from '../sweep/account-sweep.ts'

/** Identities that are kept: 16 MB. Each account is looked up once a day, so that more would seldom be used again. */
const identitiesMax = 20_000

/** Between looks at whether an author has work that is done beside the events. */
const besideLookMs = 100

/** What is known of the network, whichever generation is served. */
interface Watchers {
  readonly resolver: IdentityResolver
  readonly goneAnswers: GoneAnswers
  readonly lostNames: GoneAnswers
}

export interface ServedGeneration extends Watchers {
  readonly settings: IndexSettings
  readonly writer: IndexWriter
  readonly fold: Fold
  readonly client: StreamClient
  readonly metrics: IndexMetrics
  readonly logger: Logger
}

export function createWatchers(settings: IndexSettings, metrics: IndexMetrics, logger: Logger): Watchers {
  const { plcUrl, allowedPrivateHosts } = settings
  return {
    resolver: createResolver({ plcUrl, allowedPrivateHosts, cacheMax: identitiesMax }),
    goneAnswers: new GoneAnswers({
      onDoubt(isDoubted) {
        metrics.goneAnswersDoubted(isDoubted)
        if (isDoubted)
          logger.error({ plcUrl }, 'many accounts in a row are said to be gone; none of it is believed')
        else logger.info('accounts are found again')
      },
    }),
    lostNames: new GoneAnswers({
      onDoubt(isDoubted) {
        metrics.lostNamesDoubted(isDoubted)
        if (isDoubted) logger.error('many handles in a row do not point back; none of it is believed')
        else logger.info('handles point back again')
      },
    }),
  }
}

/**
 * Works until the signal aborts. Rejects with faults of the database only.
 * @param onPreparing told whether stored records may still show by earlier settings, or by an earlier version
 */
export async function serveGeneration(
  { settings, writer, fold, client, metrics, logger, ...watchers }: ServedGeneration,
  onProgress: (progress: StreamProgress) => void,
  onPreparing: (isPreparing: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  const { allowedPrivateHosts, handleHosts, labelers, streamUrl, accountCheckHours } = settings
  const { resolver } = watchers
  let progress: StreamProgress | undefined
  const labels = new LabelStore(writer)
  const lookups = new HandleLookups({
    ...watchers,
    requests: new HandleRequests(writer),
    resolveHandle: createHandleResolver({ allowedPrivateHosts, handleHosts }),
    logger,
    onLookup: (result) => metrics.handleLookedUp(result),
  })
  const adopt = async (): Promise<void> => {
    onPreparing(true)
    await fold.adopt(signal)
    onPreparing(false)
  }
  await Promise.all([
    workBeside(fold, metrics.madeAgain, signal),
    consumeStream({
      client,
      source: sourceOf(streamUrl),
      collections: indexedCollections,
      fold,
      logger,
      signal,
      onProgress(now) {
        progress = now
        onProgress(now)
      },
      onApplied(counts, newestEventTime) {
        metrics.applied(counts, newestEventTime)
        lookups.wake()
      },
      onUnreadable: (events) => metrics.unreadable(events),
    }),
    adopt(),
    lookups.run(signal),
    sweepAccounts(
      {
        ...watchers,
        writer,
        fold,
        allowedPrivateHosts,
        everyMs: accountCheckHours * 3_600_000,
        isCaughtUp: () => progress?.state === 'live',
        newestEventAt: () => parseDatetime(progress?.newestEventTime),
        logger,
        onChecked: metrics.accountChecked,
      },
      signal,
    ),
    ...labelers.map((labeler) =>
      consumeLabels(
        {
          labeler: labeler as Did, // the setting's pattern is that of a DID
          store: labels,
          resolver,
          allowedPrivateHosts,
          logger,
          onLabels: metrics.labelsRead,
          onConnected: metrics.labelerConnection(),
          onListingDue: metrics.labelsMissing(),
        },
        signal,
      ),
    ),
  ])
}

/** Does what is noted to be done beside the events. @param onAuthors told of how many authors there is such work. */
export async function workBeside(
  fold: Fold,
  onAuthors: (count: number) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const authors = await fold.workBeside(signal)
    onAuthors(fold.authorsBeside)
    if (authors === 0) await pause(besideLookMs, signal)
  }
}
