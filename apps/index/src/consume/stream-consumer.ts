/**
 * Feeds the fold from the stream, from the fold's own cursor on and without an end. The client waits out what passes by
 * itself; what it gives up on (a refused key, a stream that was set up anew) is shown and tried again slowly, because
 * somebody may put it right without touching the index. A fault of our own database ends the process.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '@tributary/telemetry'
import type { ReplayOptions, StreamBatch, StreamClient, StreamStatus } from '@tributary/client/node'
import { payloadBytesOf, plainEvent, runBatches, StreamError } from '@tributary/client/node'
import type { StreamEvent } from '@tributary/protocol'
import { AnotherStreamError, StreamCheck } from './stream-check.ts'
import type { Fold, FoldCounts } from '../fold/fold.ts'
import { pause } from '../pause.ts'

/** Between attempts after an error that the client takes for lasting. */
const lastingErrorWaitMs = 30_000
/** Between looks at whether events that must wait may be applied. */
const heldLookMs = 100

/** Where the index stands in the stream. */
export interface StreamProgress {
  cursor: number
  /** `catching-up`: reading the archive. `live`: subscribed. `waiting`: not connected, `detail` says why. */
  state: 'catching-up' | 'live' | 'waiting'
  detail: string
  /** Time of the newest event applied, as the stream gave it. */
  newestEventTime: string | undefined
  /** Whether this is another stream than the one that was followed; undefined until it is known. */
  isAnother: boolean | undefined
}

export interface StreamConsumerOptions {
  client: StreamClient
  /** Names the stream in the table of cursors. */
  source: string
  collections: readonly string[]
  fold: Fold
  /** The last seq that may be applied now. Later events wait until it grows. Default: all may. */
  applyThrough?: () => number
  logger: Logger
  signal: AbortSignal
  onProgress: (progress: StreamProgress) => void
  /** After every transaction. */
  onApplied: (counts: FoldCounts, newestEventTime: string | undefined) => void
  /** The stream cannot read so many events, and the cursor passes them. */
  onUnreadable: (events: number) => void
}

/** Resolves when the signal aborts. Rejects with faults of the database only. */
export async function consumeStream(options: StreamConsumerOptions): Promise<void> {
  const { client, source, collections, fold, logger, signal, onProgress, onApplied, onUnreadable } = options
  const applyThrough = options.applyThrough ?? (() => Infinity)
  logFailed(await fold.finish(), logger)
  // A stream that has moved has its cursor under its earlier address.
  await fold.stream.rename(source)
  const cursorAtStart = await fold.stream.cursor(source)
  const progress: StreamProgress = {
    cursor: cursorAtStart,
    state: 'waiting',
    detail: 'not connected yet',
    newestEventTime: undefined,
    isAnother: cursorAtStart === 0 ? false : undefined,
  }
  const report = (change: Partial<StreamProgress>): void => onProgress({ ...Object.assign(progress, change) })
  let mayBeAnother = false
  const onStatus = (status: StreamStatus): void => {
    if (status.type === 'reconnecting' && status.reason !== 'archive-failed') mayBeAnother = true
    report(progressOf(status))
    logStatus(status, logger)
  }

  const reader = {
    read: (event: StreamEvent): StreamEvent | undefined => readEvent(event, logger),
    bytesOf: payloadBytesOf,
  }
  /** Applies a batch, or a part of it when the signal aborts. */
  const write = async ({ events, cursor }: StreamBatch): Promise<void> => {
    let rest: readonly StreamEvent[] = events
    for (let isDone = false; !isDone && !signal.aborted;) {
      const through = applyThrough()
      const part = rest.filter(({ seq }) => seq <= through)
      rest = rest.slice(part.length)
      const mustWait = (rest[0]?.seq ?? cursor) > through
      const isThrough = mustWait || rest.length === 0
      const counts = await fold.apply(source, part, isThrough ? Math.min(cursor, through) : 0, reader)
      logFailed(counts, logger)
      const newestEventTime = part.at(-1)?.time ?? progress.newestEventTime
      report({ cursor: await fold.stream.cursor(source), newestEventTime, isAnother: false })
      onApplied(counts, newestEventTime)
      isDone = isThrough && !mustWait
      await (mustWait ? pause(heldLookMs, signal) : nextTurn())
    }
  }

  /** Ends when the stream may be another one than before. @throws AnotherStreamError */
  async function* checked(check: StreamCheck, read: ReplayOptions): AsyncGenerator<StreamBatch, void> {
    let isUnder = false
    for await (const batch of client.replay(read)) {
      // Another stream may answer after the connection ended, so the check begins with what is known of this one.
      if (isUnder && mayBeAnother) return
      isUnder = true
      check.see(batch)
      yield batch
    }
  }

  while (!signal.aborted) {
    try {
      if (!(await fold.stream.rename(source))) throw new AnotherStreamError('the stream has another address')
      const check = new StreamCheck(await fold.stream.foldedEvents(), await fold.stream.cursor(source))
      mayBeAnother = false
      await runBatches({
        client: { replay: (read) => checked(check, read) },
        store: { load: async () => check.startAt, write },
        onReport({ gap }) {
          logger.error({ ...gap }, 'events of the stream cannot be read')
          // Once, however many numbers it names: after a backup was restored these are a billion that no event ever had.
          onUnreadable(1)
        },
        read: { collections, onStatus },
        signal,
      })
    } catch (error) {
      if (!(error instanceof StreamError || error instanceof AnotherStreamError)) throw error
      const isAnother = error instanceof AnotherStreamError || error.code === 'FutureCursor'
      report({ state: 'waiting', detail: advice(error), ...(isAnother && { isAnother }) })
      logger.error({ err: error, cursor: progress.cursor }, 'the stream cannot be read')
      await pause(lastingErrorWaitMs, signal)
    }
  }
  report({ state: 'waiting', detail: 'the stream is not read while a generation takes over' })
}

function logFailed({ failed }: FoldCounts, logger: Logger): void {
  for (const { error, ...event } of failed)
    logger.error({ ...event, err: error }, 'an event was left out: the index failed at it')
}

/** An event as an object of its own; undefined when a field of an archive's event is malformed. */
function readEvent(event: StreamEvent, logger: Logger): StreamEvent | undefined {
  try {
    return plainEvent(event)
  } catch (error) {
    if (!(error instanceof StreamError)) throw error
    logger.error({ err: error, seq: event.seq }, 'an event was left out: it is malformed')
    return undefined
  }
}

const takeOver = 'To take over the stream as it is now, without waiting: tributary index rebuild'

function progressOf(status: StreamStatus): Partial<StreamProgress> {
  switch (status.type) {
    case 'planning':
    case 'downloading':
    case 'refilling':
      return { state: 'catching-up', detail: 'reading the archive' }
    case 'live':
      return { state: 'live', detail: 'subscribed' }
    case 'reconnecting':
      return { state: 'waiting', detail: `${status.reason}: ${status.detail}` }
    default:
      return {}
  }
}

function logStatus(status: StreamStatus, logger: Logger): void {
  switch (status.type) {
    case 'live':
      logger.info({ cursor: status.cursor }, 'subscribed to the stream')
      return
    case 'reconnecting':
      logger.warn({ ...status }, 'the stream is away')
      return
    case 'malformed':
      logger.warn({ ...status }, 'an event of the stream cannot be read')
      return
    default:
      logger.debug({ ...status }, 'stream status')
  }
}

function advice(error: StreamError | AnotherStreamError): string {
  if (error instanceof AnotherStreamError) {
    return `this is another stream than the index has followed: ${error.message}. ${takeOver}`
  }
  switch (error.code) {
    case 'FutureCursor':
      return `${error.message}. ${takeOver}`
    case 'AuthenticationRequired':
      return `${error.message}. Set an API key that the operator of the stream has given out`
    default:
      return error.message
  }
}
