/**
 * Builds the next generation of the index from the stream while the present one is served and kept up to date, and switches
 * to it: when an operator asks for it, or when the stream has turned out to be another one.
 *
 * Always holds: readers have one whole generation at any time, whatever is killed when. The next one is folded like any
 * index, with its cursor in its transactions, so a start goes on where it was. The next one never passes the present one,
 * because what the present one knows of records counts for the events that it has read. The present one stops when the next
 * has nearly reached it and has done what was noted by then to be done beside the events. When both are at the same event, the
 * next gets what the stream does not tell, loses what is shown of accounts that are hidden, is made durable, and is named as
 * the present one. It goes on with what is noted still.
 */
import type { StreamClient } from '@tributary/client/node'
import type { Generations, IndexWriter } from '@tributary/index-store'
import { indexedCollections } from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import type { Logger } from '@tributary/telemetry'
import { consumeStream, type StreamProgress } from '../consume/stream-consumer.ts'
import { EarlierPlaces } from '../fold/earlier-places.ts'
import type { FeedPolicy } from '../fold/feed-rows.ts'
import { Fold } from '../fold/fold.ts'
import { pause } from '../pause.ts'
import { keepNote, type NewStream } from './new-stream.ts'
import type { Removal } from './removal.ts'
import { workBeside } from './serve.ts'
import { takeOver } from './take-over.ts'

/** How often it is looked whether a rebuild is asked for, and whether it has come far enough. */
const lookEveryMs = 500
/** How long a generation is kept after it was replaced: longer than a feed may take to read a page. */
export const replacedKeptMs = 120_000
/** How long nothing is written at the end of a rebuild. Longer than a stream takes to start. */
export const standstillMs = 30_000
/** How long a rebuild waits whose generation cannot be opened, and a generation at most that cannot be removed. */
export const tryAgainMs = 60_000

/** The generation that is served. */
export interface Present {
  readonly number: number
  readonly writer: IndexWriter
  readonly progress: () => StreamProgress | undefined
  /** Ends all that writes to it. */
  readonly stop: () => Promise<void>
}

export interface RebuildParts {
  readonly generations: Generations
  readonly openWriter: (generation: number) => Promise<IndexWriter>
  /** A client of its own for the stream. */
  readonly newClient: () => StreamClient
  readonly source: string
  readonly policy: FeedPolicy
  readonly views: RecordViews
  /** As the fold of the present generation has it. */
  readonly besideRows: number
  readonly logger: Logger
  /** Undefined when none is being built. */
  readonly onProgress: (progress: StreamProgress | undefined) => void
  readonly onUnreadable: (events: number) => void
  readonly removal: Removal
  readonly newStream: NewStream
  readonly replacedKeptMs: number
  readonly standstillMs: number
  readonly tryAgainMs: number
}

export type Next = Pick<Present, 'number' | 'writer'>

/** Whose rebuild it is. */
interface Wish {
  readonly isAnother: boolean
  /** Nobody has asked for it. */
  readonly isByItself: boolean
}

/** Why a generation is not the present one. */
type Unfinished = 'again' | 'late' | 'stopped' | 'unopened'

/**
 * Waits for a rebuild to be asked for and does it. Resolves with the generation to be served from then on, with nothing that
 * writes to it; undefined when the signal has aborted. It is the present one when the stream goes away just as the next has
 * nearly reached it, so that labels and the words of hosts still count meanwhile. Rejects with faults of the database only.
 */
export async function rebuildWhenAsked(
  present: Present,
  parts: RebuildParts,
  signal: AbortSignal,
): Promise<Next | undefined> {
  const { generations, logger, onProgress, newStream, removal } = parts
  const removeAtMs = performance.now() + parts.replacedKeptMs
  let isRemoved = false
  /** Whether a generation of another stream is left. Nothing can be built in its place before it is gone. */
  const isNextLeft = (): boolean => removal.isLeft(present.number + 1)
  for (;;) {
    await pause(lookEveryMs, signal)
    if (signal.aborted) return undefined
    const isAsked = await generations.isRebuildAsked()
    const isAnother = present.progress()?.isAnother
    if (!isAsked && !(await newStream.isDue(present.writer, isAnother))) {
      if (!isRemoved && performance.now() >= removeAtMs) {
        // What a rebuild by itself has read so far counts after a restart.
        const mayGoOn = newStream.isAllowed && isAnother !== false && !isNextLeft()
        const kept = mayGoOn ? [present.number, present.number + 1] : [present.number]
        const isDone = await removal.keepOnly(kept)
        isRemoved = isDone && !mayGoOn
      }
      continue
    }
    if (isAnother === undefined) continue
    if (isNextLeft()) await removal.keepOnly([present.number])
    // The present generation is served meanwhile, because beginning to build would stop it once more.
    if (isNextLeft()) continue
    if (!isAsked) newStream.begin()
    const next = await build(present, { isAnother, isByItself: !isAsked }, parts, signal)
    newStream.end()
    onProgress(undefined)
    if (next === 'stopped') return undefined
    if (next === 'unopened') {
      await pause(parts.tryAgainMs, signal)
      continue
    }
    if (next === 'late') {
      logger.warn(
        'the stream is away at the end of a rebuild; the present generation goes on until it is back',
      )
      return present
    }
    if (next !== 'again') return next
    logger.warn('the generation that was being built has followed another stream; beginning again')
    await present.stop()
    await removal.keepOnlyNow([present.number])
    return present
  }
}

/**
 * `again`: what was there of the next generation is of another stream. `late`: the present one has stopped in vain.
 * `unopened`: there can be no next generation now.
 */
async function build(
  present: Present,
  { isAnother, isByItself }: Wish,
  parts: RebuildParts,
  signal: AbortSignal,
): Promise<Next | Unfinished> {
  const { generations, logger, policy, views, besideRows, source, newStream } = parts
  const number = present.number + 1
  const writer = await openNext(number, parts)
  if (writer === undefined) return 'unopened'
  let isServed = false
  try {
    const fold = new Fold(writer, policy, views, {
      earlier: new EarlierPlaces(present.writer),
      besideRows,
    })
    const stop = new AbortController()
    const until = AbortSignal.any([signal, stop.signal])
    let progress: StreamProgress | undefined
    logger.info({ generation: number, cursor: await fold.stream.cursor(source) }, 'building a generation')
    const consuming = consumeStream({
      client: parts.newClient(),
      source,
      collections: indexedCollections,
      fold,
      // The numbers of another stream cannot be compared.
      applyThrough: () => (isAnother ? Infinity : cursorOf(present)),
      logger,
      signal: until,
      onProgress(now) {
        progress = now
        parts.onProgress(now)
      },
      onApplied: () => undefined,
      onUnreadable: parts.onUnreadable,
    })
    const adopting = fold.adopt(until)
    const working = workBeside(fold, () => undefined, until)
    /** Whether it may be served once it is live. */
    const isWanted = async (): Promise<boolean> =>
      !isByItself || (await generations.isRebuildAsked()) || (await newStream.isWhole(present.writer, writer))
    /** Waits until it has what the present one has had at the last look, or has in the end. */
    const reach = async (what: 'nearly' | 'all', withinMs: number): Promise<'there' | Unfinished> => {
      const endsMs = performance.now() + withinMs
      for (let lastLook = Infinity; ;) {
        if (until.aborted) return 'stopped'
        if (progress?.isAnother === true || present.progress()?.isAnother !== isAnother) return 'again'
        const [cursor, goal] = [progress?.cursor ?? 0, cursorOf(present)]
        const isThere = cursor === goal || (what === 'nearly' && lastLook <= cursor && cursor < goal)
        if (progress?.state === 'live' && (isAnother ? await isWanted() : isThere)) return 'there'
        if (performance.now() >= endsMs) return 'late'
        lastLook = goal
        await pause(lookEveryMs, until)
      }
    }
    const finish = async (): Promise<'there' | Unfinished> => {
      try {
        const reached = await reach('nearly', Infinity)
        if (reached !== 'there') return reached
        await adopting
        await notedIsDone(writer, until)
        const isStillThere = await reach('nearly', Infinity)
        if (isStillThere !== 'there') return isStillThere
        await present.stop()
        return await reach('all', parts.standstillMs)
      } finally {
        stop.abort()
      }
    }
    const [reached] = await Promise.all([finish(), consuming, adopting, working])
    if (reached !== 'there') return reached
    await takeOver({ from: present.writer, to: writer, fold, isAnother })
    while (await fold.workBeside(signal, 'hidden'));
    if (signal.aborted) return 'stopped'
    await (isByItself ? newStream.note(writer) : keepNote(present.writer, writer))
    await writer.makeDurable()
    await generations.switchTo(number)
    isServed = true
    logger.info({ generation: number }, 'the index has a new generation')
    return { number, writer }
  } finally {
    if (!isServed) await writer[Symbol.asyncDispose]()
  }
}

/** Waits until what is noted now to be done beside the events has been done. Who is noted again meanwhile stands behind that. */
async function notedIsDone(writer: IndexWriter, until: AbortSignal): Promise<void> {
  const end = await writer.write(({ queues }) => queues.lastRemakePlace())
  const isDone = (): Promise<boolean> =>
    writer.write(async ({ queues }) => {
      const next = [await queues.nextRemake(true), await queues.nextRemake(false)]
      return next.every((remake) => remake === undefined || remake.place >= end)
    })
  while (!until.aborted && !(await isDone())) await pause(lookEveryMs, until)
}

function cursorOf(present: Present): number {
  return present.progress()?.cursor ?? 0
}

/** Undefined when it cannot be opened, which is no fault of the present generation: it is served as before. */
async function openNext(
  number: number,
  { openWriter, logger }: RebuildParts,
): Promise<IndexWriter | undefined> {
  try {
    return await openWriter(number)
  } catch (error) {
    logger.error({ generation: number, err: error }, 'a rebuild cannot begin; it is tried again in a minute')
    return undefined
  }
}
