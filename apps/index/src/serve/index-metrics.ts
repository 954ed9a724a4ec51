import { type IndexReader, parseDatetime } from '@tributary/index-store'
import { createMetrics, type Logger, type Metrics } from '@tributary/telemetry'
import type { StreamProgress } from '../consume/stream-consumer.ts'
import type { FoldCounts } from '../fold/fold.ts'
import type { LookupResult } from '../handles/handle-lookups.ts'
import type { LabelResult } from '../labels/read-label.ts'
import type { CheckResult } from '../sweep/account-sweep.ts'

export interface IndexMetrics {
  readonly metrics: Metrics
  readonly applied: (counts: FoldCounts, newestEventTime: string | undefined) => void
  readonly unreadable: (events: number) => void
  readonly labelsRead: (result: LabelResult, count: number) => void
  readonly handleLookedUp: (result: LookupResult) => void
  readonly accountChecked: (result: CheckResult) => void
  readonly goneAnswersDoubted: (isDoubted: boolean) => void
  readonly lostNamesDoubted: (isDoubted: boolean) => void
  readonly newStreamHeldBack: (isHeldBack: boolean) => void
  readonly generationLeft: (isLeft: boolean) => void
  /** Takes how many authors have rows that are to be made again. */
  readonly madeAgain: (authors: number) => void
  /** Gives a function that takes the connection state of one labeler. */
  readonly labelerConnection: () => (isConnected: boolean) => void
  /** Gives a function that takes whether labels of one labeler are missing. */
  readonly labelsMissing: () => (isMissing: boolean) => void
}

/** Counting what waits takes a few milliseconds. */
const readMsMax = 5000
/** Handles that are counted at each reading of the metrics. A queue that is longer shows this number. */
const handlesCountedMax = 100_000
const delayBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600]

export function createIndexMetrics(sources: {
  generation: () => number
  progress: () => StreamProgress | undefined
  rebuilding: () => StreamProgress | undefined
  /** Whether stored records may still show by earlier settings, or by an earlier version. */
  isPreparing: () => boolean
  /** Reads the generation that is served without waiting for whoever writes to it. */
  reader: IndexReader
  logger: Logger
}): IndexMetrics {
  const metrics = createMetrics('index')
  const waitingHandles = countOfHandles(sources)
  const events = metrics.counter({
    name: 'index_events_total',
    help: 'Events of the stream, by what became of them',
    labels: ['result'],
  })
  // An alert sees the first of these only if there was none before.
  for (const result of ['malformed', 'internal-error', 'unreadable']) events.inc({ result }, 0)
  const delay = metrics.histogram({
    name: 'index_event_delay_seconds',
    help: 'From the time of an event in the stream to its transaction, for the newest event of each',
    buckets: delayBuckets,
  })
  const labels = metrics.counter({
    name: 'index_labels_total',
    help: 'Labels of trusted labelers, by what became of them',
    labels: ['result'],
  })
  const lookups = metrics.counter({
    name: 'index_handle_lookups_total',
    help: 'Handles looked up in DID documents and proven by their names, by the outcome',
    labels: ['result'],
  })
  const checks = metrics.counter({
    name: 'index_account_checks_total',
    help: 'Accounts whose host was asked about them, by the outcome',
    labels: ['result'],
  })
  const doubted = metrics.gauge({
    name: 'index_gone_answers_doubted',
    help: '1 while accounts are said to be gone one after the other, and none of it is believed',
  })
  const lostNames = metrics.gauge({
    name: 'index_lost_handles_doubted',
    help: '1 while handles do not point back one after the other, and none of it is believed',
  })
  const heldBack = metrics.gauge({
    name: 'index_new_stream_held_back',
    help: '1 while a rebuild from another stream is not served, because that stream lacks accounts or is behind',
  })
  const left = metrics.gauge({
    name: 'index_generation_left',
    help: '1 while a generation that nobody needs cannot be removed, and takes room',
  })
  const authors = metrics.gauge({
    name: 'index_authors_made_again',
    help: 'Authors of whom so many rows are made again that it is done beside the events',
  })
  const labelers = metrics.gauge({ name: 'index_labelers_connected', help: 'Labelers subscribed to' })
  const missing = metrics.gauge({
    name: 'index_labelers_with_missing_labels',
    help: 'Labelers whose stream no longer holds what was missed, and whose list is not read to its end',
  })
  metrics.gauge({
    name: 'index_cursor',
    help: 'Last seq of the stream in the database',
    collect: (gauge) => gauge.set(sources.progress()?.cursor ?? 0),
  })
  metrics.gauge({
    name: 'index_generation',
    help: 'Number of the generation that is served',
    collect: (gauge) => gauge.set(sources.generation()),
  })
  metrics.gauge({
    name: 'index_rebuild_cursor',
    help: 'Last seq of the stream in the generation that is being built; 0 while none is',
    collect: (gauge) => gauge.set(sources.rebuilding()?.cursor ?? 0),
  })
  metrics.gauge({
    name: 'index_preparing_again',
    help: '1 while stored records are prepared again, because settings or the version changed',
    collect: (gauge) => gauge.set(sources.isPreparing() ? 1 : 0),
  })
  metrics.gauge({
    name: 'index_stream_live',
    help: '1 while subscribed to the live stream',
    collect: (gauge) => gauge.set(sources.progress()?.state === 'live' ? 1 : 0),
  })
  metrics.gauge({
    name: 'index_newest_event_timestamp_seconds',
    help: 'Time of the newest event in the database since the start',
    collect: (gauge) => gauge.set(secondsOf(sources.progress()?.newestEventTime) ?? 0),
  })
  metrics.gauge({
    name: 'index_handles_waiting',
    help: `Accounts whose handle is to be looked up, counted up to ${handlesCountedMax}`,
    // The gauge is not a number while the database cannot be read, and the others are told all the same.
    collect: async (gauge) => gauge.set(await waitingHandles().catch(() => NaN)),
  })
  return {
    metrics,
    applied({ applied, repeated, malformed, failed }, newestEventTime) {
      events.inc({ result: 'applied' }, applied)
      events.inc({ result: 'repeated' }, repeated)
      events.inc({ result: 'malformed' }, malformed)
      events.inc({ result: 'internal-error' }, failed.length)
      const time = secondsOf(newestEventTime)
      if (applied > 0 && time !== undefined) delay.observe(Math.max(0, Date.now() / 1000 - time))
    },
    unreadable: (count) => events.inc({ result: 'unreadable' }, count),
    labelsRead: (result, count) => labels.inc({ result }, count),
    handleLookedUp: (result) => lookups.inc({ result }),
    accountChecked: (result) => checks.inc({ result }),
    goneAnswersDoubted: (isDoubted) => doubted.set(isDoubted ? 1 : 0),
    lostNamesDoubted: (isDoubted) => lostNames.set(isDoubted ? 1 : 0),
    newStreamHeldBack: (isHeldBack) => heldBack.set(isHeldBack ? 1 : 0),
    generationLeft: (isLeft) => left.set(isLeft ? 1 : 0),
    madeAgain: (count) => authors.set(count),
    labelerConnection: () => counted((change) => labelers.inc(change)),
    labelsMissing: () => counted((change) => missing.inc(change)),
  }
}

/** Gives a function that counts the handles that wait. The log says once that they cannot be counted, until they can. */
function countOfHandles({ reader, logger }: { reader: IndexReader; logger: Logger }): () => Promise<number> {
  let isCounted = true
  return async () => {
    try {
      const count = await reader.snapshot({ timeoutMs: readMsMax }, (view) =>
        view.waitingHandles(handlesCountedMax),
      )
      isCounted = true
      return count
    } catch (error) {
      if (isCounted)
        logger.warn(
          { err: error },
          'the handles that wait cannot be counted, because the database is not read',
        )
      isCounted = false
      throw error
    }
  }
}

/** Gives a function that takes the state of one of those that are counted. */
function counted(add: (change: number) => void): (is: boolean) => void {
  let was = false
  return (is) => {
    if (is !== was) add(is ? 1 : -1)
    was = is
  }
}

function secondsOf(time: string | undefined): number | undefined {
  const moment = parseDatetime(time)
  return moment === undefined ? undefined : Number(moment) / 1_000_000
}
