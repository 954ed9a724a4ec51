/** On both databases: what holds while a generation is built beside one that does not go on as fast. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createStreamClient } from '@tributary/client/node'
import {
  type Generations,
  GenerationsLeftError,
  IndexStorageError,
  type IndexWriter,
  openGenerations,
  openIndexWriter,
} from '@tributary/index-store'
import type { StreamEvent } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { eventually, inTime, newPostgresDatabase, SmallStream } from '@tributary/testkit'
import { shown } from '../../tests/compacted.ts'
import { openTestIndex } from '../../tests/open-test-index.ts'
import {
  accountEvent,
  day,
  deleteEvent,
  did,
  putEvent,
  rowsOf,
  syncEvent,
  views,
} from '../../tests/scenario.ts'
import type { StreamProgress } from '../consume/stream-consumer.ts'
import { Fold } from '../fold/fold.ts'
import { sourceOf } from '../fold/followed-stream.ts'
import { NewStream } from './new-stream.ts'
import { type Next, type Present, rebuildWhenAsked, type RebuildParts } from './rebuild.ts'
import { Removal } from './removal.ts'

const policy = { updateContentTypes: [] }
const besideRows = 5
const evaluation = 'org.impact.context.evaluation'

function at(hour: number): string {
  return `${day}T${String(hour).padStart(2, '0')}:00:00.000000Z`
}

const history: readonly StreamEvent[] = [
  putEvent(1, at(9), 'x', evaluation, 'a', { createdAt: at(8) }).event,
  syncEvent(2, at(10), 'x'),
  deleteEvent(3, at(11), 'x', evaluation, 'a'),
  putEvent(4, at(12), 'x', evaluation, 'a', { createdAt: at(11) }).event,
]

/** How it comes to a rebuild. */
interface Manner {
  /** 0: not by itself. */
  readonly byItselfAfterMs: number
  readonly isAsked?: boolean
  readonly replacedKeptMs?: number
}

/** An index whose present generation goes on only when the test says so, and the next one beside it. */
class Rebuilding implements AsyncDisposable {
  readonly place: string
  readonly stream: SmallStream
  readonly next: Promise<Next | undefined>
  isOver = false
  nextCursor = 0
  /** Generations that cannot be removed now. */
  unremovable: readonly number[] = []
  stops = 0
  /** What was built is not served. */
  isHeldBack = false
  /** Whether a generation could not be removed, each time that it was tried. */
  readonly left: boolean[] = []
  /** Looks at whether a rebuild is asked for. */
  readonly looks: string[] = []
  /** The last acts of a rebuild, in order. */
  readonly ending: string[] = []
  /** Called as the present generation stops. */
  onStop: () => void | Promise<void> = () => undefined
  readonly #writer: IndexWriter
  readonly #source: string
  readonly #newStream: NewStream
  readonly #stop = new AbortController()
  readonly #generations: Generations
  readonly #present: Present
  readonly #parts: RebuildParts
  #progress: StreamProgress
  #onOpen: () => void = () => undefined

  private constructor(
    place: string,
    writer: IndexWriter,
    stream: SmallStream,
    progress: StreamProgress,
    { byItselfAfterMs, isAsked = true, replacedKeptMs = 60_000 }: Manner,
  ) {
    this.place = place
    this.stream = stream
    this.#writer = writer
    this.#source = sourceOf(stream.url)
    this.#progress = progress
    this.#newStream = new NewStream({
      afterMs: byItselfAfterMs,
      onHeldBack: (isHeldBack) => (this.isHeldBack = isHeldBack),
      logger: createLogger('rebuild-test', { level: 'silent' }),
      countEveryMs: 10,
    })
    const generations = openGenerations(place)
    this.#generations = generations
    this.#present = {
      number: 1,
      writer,
      progress: () => this.#progress,
      stop: async () => {
        this.stops++
        await this.onStop()
      },
    }
    const logger = createLogger('rebuild-test', { level: 'silent' })
    const tryAgainMs = 1
    const keepOnly = async (kept: readonly number[]): Promise<GenerationsLeftError | undefined> => {
      const fault = await generations.keepOnly([...kept, ...this.unremovable])
      const left = this.unremovable.filter((each) => !kept.includes(each))
      return fault ?? GenerationsLeftError.of(new Map(left.map((each) => [each, new Error('it stays')])))
    }
    const onLeft = (isLeft: boolean): unknown => this.left.push(isLeft)
    this.#parts = {
      generations: noting(noting(generations, 'switchTo', this.ending), 'isRebuildAsked', this.looks),
      openWriter: async (generation: number) => {
        this.#onOpen()
        return noting(await openIndexWriter(place, { generation }), 'makeDurable', this.ending)
      },
      newClient: () => createStreamClient({ url: stream.url, retry: { firstMs: 1, maxMs: 5 } }),
      source: this.#source,
      policy,
      views,
      besideRows,
      logger,
      onProgress: (now: StreamProgress | undefined) => (this.nextCursor = now?.cursor ?? this.nextCursor),
      onUnreadable: () => undefined,
      removal: new Removal({ generations: { keepOnly }, onLeft, tryAgainMs, logger }),
      newStream: this.#newStream,
      replacedKeptMs,
      standstillMs: 1000,
      tryAgainMs,
    }
    this.next = (async () => {
      if (byItselfAfterMs === 0 && isAsked) await generations.askForRebuild()
      const next = await this.serve()
      this.isOver = true
      return next
    })()
  }

  /** Serves the present generation until another one is to be served, or the same one again. */
  serve(): Promise<Next | undefined> {
    return rebuildWhenAsked(this.#present, this.#parts, this.#stop.signal)
  }

  /** @param through the present generation has these events. */
  static start(t: TestContext, through: number): Promise<Rebuilding> {
    return Rebuilding.#start(t, { through, events: history, byItselfAfterMs: 0 })
  }

  /** The present generation has all of these events. */
  static async startWith(t: TestContext, events: readonly StreamEvent[]): Promise<Rebuilding> {
    const rebuilding = await Rebuilding.#start(t, { through: 0, events, byItselfAfterMs: 0 })
    await rebuilding.goOn(events.length, events)
    return rebuilding
  }

  /** The present generation has followed a stream of the history. Another one is at its address, and nobody asks for a rebuild. */
  static async startOnAnother(t: TestContext, events: readonly StreamEvent[]): Promise<Rebuilding> {
    const rebuilding = await Rebuilding.#start(t, { through: 4, events, byItselfAfterMs: 1 })
    rebuilding.meetAnother()
    return rebuilding
  }

  /** The generation that is served has taken the place of others at this place. */
  static startAfterwards(t: TestContext, place: string): Promise<Rebuilding> {
    const manner = { byItselfAfterMs: 0, isAsked: false, replacedKeptMs: 0 }
    return Rebuilding.#start(t, { through: 4, events: history, place, ...manner })
  }

  static async #start(
    t: TestContext,
    {
      through,
      events,
      place: given,
      ...manner
    }: Manner & { through: number; events: readonly StreamEvent[]; place?: string },
  ): Promise<Rebuilding> {
    const place = given ?? (await newPlace(t))
    const stream = await SmallStream.start(events)
    const writer = await openIndexWriter(place)
    const progress = { cursor: 0, state: 'live', detail: '', newestEventTime: undefined } as const
    const rebuilding = new Rebuilding(place, writer, stream, { ...progress, isAnother: false }, manner)
    await rebuilding.goOn(through)
    return rebuilding
  }

  /** The next generation cannot be opened so many times. */
  refuse(times: number): void {
    let left = times
    this.#onOpen = () => {
      if (left-- > 0) throw new IndexStorageError('it cannot be opened')
    }
  }

  /** The present generation takes the events up to this one. */
  async goOn(through: number, all = history): Promise<void> {
    const events = all.filter(({ seq }) => seq <= through)
    await new Fold(this.#writer, policy, views).apply(this.#source, events, through)
    this.#progress = { ...this.#progress, cursor: through }
  }

  /** A host says this of its account to the present generation. */
  async hear(name: string, status: string): Promise<void> {
    const fold = new Fold(this.#writer, policy, views)
    const statusSeq = await fold.statusSeq(did(name))
    assert.ok(statusSeq !== undefined && (await fold.setHostStatus(did(name), statusSeq, status)))
  }

  /** A stream is taken over by itself now. */
  async noteTakenOver(): Promise<void> {
    await this.#newStream.note(this.#writer)
  }

  /** The present generation has come so far. */
  setCursor(cursor: number): void {
    this.#progress = { ...this.#progress, cursor }
  }

  /** The present generation finds that its stream is another one. */
  meetAnother(): void {
    this.#progress = { ...this.#progress, state: 'waiting', isAnother: true }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    const next = await this.next.catch(() => undefined) // the test has it
    if (next?.number === 2) await next.writer[Symbol.asyncDispose]()
    await this.#generations[Symbol.asyncDispose]()
    await this.#writer[Symbol.asyncDispose]()
    await this.stream[Symbol.asyncDispose]()
  }
}

/** Notes each call of a method before it is made. */
function noting<T extends object>(target: T, method: keyof T & string, calls: string[]): T {
  return new Proxy(target, {
    get(of, name) {
      if (name === method) calls.push(method)
      const value: unknown = Reflect.get(of, name, of)
      return typeof value === 'function'
        ? (...args: unknown[]): unknown => Reflect.apply(value, of, args)
        : value
    },
  })
}

async function newPlace(t: TestContext): Promise<string> {
  const database = await newPostgresDatabase()
  if (database !== undefined) return database
  const directory = mkdtempSync(join(tmpdir(), 'rebuild-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'index.sqlite')
}

test('the next generation takes over at the event where the present one stopped, so a deleted record does not keep its place', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 2)
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  assert.deepEqual(rebuilding.ending, ['makeDurable', 'switchTo'])
  const fold = new Fold(next.writer, policy, views)
  const source = sourceOf(rebuilding.stream.url)
  assert.equal(await fold.stream.cursor(source), 2)
  await fold.apply(source, history, 4)
  await using fresh = await openTestIndex()
  await new Fold(fresh, policy, views).apply(source, history, 4)
  assert.deepEqual(await shown(next.writer), await shown(fresh))
})

test('events that the present generation does not have yet are applied when it has them', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 1)
  let cursorBefore: number | undefined
  rebuilding.onStop = async () => {
    cursorBefore = rebuilding.nextCursor
    await rebuilding.goOn(4)
  }
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  assert.equal(cursorBefore, 1)
  assert.equal(await new Fold(next.writer, policy, views).stream.cursor(sourceOf(rebuilding.stream.url)), 4)
})

/** An account of more records than may be made again where an event stands. */
const many = Array.from({ length: 60 }, (_, n) => putEvent(n + 1, at(9), 'x', evaluation, `r${n}`, {}).event)
const away = accountEvent(61, at(10), 'x', false, 'deactivated')

async function entriesAndWork({ writer }: Next): Promise<[entries: number, isHiding: bigint[]]> {
  const [entries, work] = [await rowsOf(writer, 'entries'), await rowsOf(writer, 'remakes')]
  return [entries.length, work.map(({ isHiding }) => isHiding)]
}

test('what was noted to be done beside the events before the next generation is there has been done', async (t) => {
  await using rebuilding = await Rebuilding.startWith(t, [...many, away, accountEvent(62, at(11), 'x', true)])
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  assert.deepEqual(await entriesAndWork(next), [60, []])
})

test('nothing is shown of an account whose host alone hides it, and the next generation goes on with the rest', async (t) => {
  await using rebuilding = await Rebuilding.startWith(t, many)
  await rebuilding.hear('x', 'deactivated')
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  assert.deepEqual(await entriesAndWork(next), [0, [0n]])
})

test('what a host shows again is made again after the next generation has taken over', async (t) => {
  await using rebuilding = await Rebuilding.startWith(t, [...many, away])
  await rebuilding.hear('x', 'active')
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  const [, work] = await entriesAndWork(next)
  assert.deepEqual(work, [0n])
  const fold = new Fold(next.writer, policy, views, { besideRows })
  while (await fold.workBeside(new AbortController().signal));
  assert.deepEqual(await entriesAndWork(next), [60, []])
})

test('the next generation knows when a stream was last taken over by itself', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 4)
  await rebuilding.noteTakenOver()
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  const notes = await next?.writer.write((batch) => batch.load('policies', ['newStreamTakenAt']))
  assert.equal(notes?.length, 1)
})

test('the present generation goes on when the stream is away just as it has stopped, and the next one later', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 1)
  // The stream never sends event 5.
  rebuilding.onStop = () => rebuilding.setCursor(5)
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.deepEqual([next?.number, rebuilding.nextCursor], [1, 4])
  // It is built on where it was.
  await using again = await openIndexWriter(rebuilding.place, { generation: 2 })
  const { stream } = new Fold(again, policy, views)
  assert.equal(await stream.cursor(sourceOf(rebuilding.stream.url)), 4)
})

test('a rebuild whose generation cannot be opened begins when it can be, and nothing ends meanwhile', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 1)
  rebuilding.refuse(2)
  assert.equal((await inTime(rebuilding.next, () => rebuilding.nextCursor))?.number, 2)
})

test('a rebuild begins again when the present generation finds that the stream is another one', async (t) => {
  // The stream does not have all of it any more.
  await using rebuilding = await Rebuilding.start(t, 5)
  await eventually(
    () => rebuilding.nextCursor === 4,
    () => rebuilding.nextCursor,
  )
  rebuilding.meetAnother()
  assert.equal((await inTime(rebuilding.next))?.number, 1)
})

/** The same record as another stream tells of it. */
const told = (seq: number, hour: number): StreamEvent =>
  putEvent(seq, at(hour), 'x', evaluation, 'b', { createdAt: at(hour) }).event

async function recordsOf({ writer }: Next): Promise<string[]> {
  return (await shown(writer))['records'] ?? []
}

test('another stream that has the accounts is taken over by itself', async (t) => {
  await using rebuilding = await Rebuilding.startOnAnother(t, [told(1, 13)])
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  const [record, ...others] = await recordsOf(next)
  assert.match(record ?? '', new RegExp(`/${evaluation}/b `))
  assert.deepEqual(others, [])
  assert.equal(rebuilding.isHeldBack, false)
})

test('another stream that is empty is not taken over before somebody asks for it', async (t) => {
  await using rebuilding = await Rebuilding.startOnAnother(t, [])
  await eventually(
    () => rebuilding.isHeldBack || rebuilding.isOver,
    () => rebuilding.nextCursor,
  )
  assert.equal(rebuilding.isOver, false)
  await using generations = openGenerations(rebuilding.place)
  assert.equal(await generations.current(), 1)
  await generations.askForRebuild()
  const next = await inTime(rebuilding.next, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  assert.equal(rebuilding.isHeldBack, false)
})

test('another stream that is behind the one that was followed is taken over when it no longer is', async (t) => {
  await using rebuilding = await Rebuilding.startOnAnother(t, [told(1, 8)])
  await eventually(
    () => rebuilding.isHeldBack || rebuilding.isOver,
    () => rebuilding.nextCursor,
  )
  assert.equal(rebuilding.isOver, false)
  rebuilding.stream.send(told(2, 13))
  assert.equal((await inTime(rebuilding.next, () => rebuilding.nextCursor))?.number, 2)
})

test('the index goes on, and tells it, while a generation that nobody needs cannot be removed', async (t) => {
  const place = join(mkdtempSync(join(tmpdir(), 'rebuild-')), 'index.sqlite')
  t.after(() => rmSync(dirname(place), { recursive: true }))
  const obstacle = `${place}.2-wal`
  mkdirSync(obstacle)
  await using rebuilding = await Rebuilding.startAfterwards(t, place)
  await eventually(
    () => rebuilding.looks.length >= 4,
    () => rebuilding.looks,
  )
  assert.deepEqual(rebuilding.left.slice(0, 2), [true, true])
  rmdirSync(obstacle)
  await eventually(
    () => rebuilding.left.at(-1) === false,
    () => rebuilding.left,
  )
  assert.equal(rebuilding.isOver, false)
})

test('while what was built of another stream cannot be removed, the present generation is not stopped again', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 5)
  await eventually(
    () => rebuilding.nextCursor === 4,
    () => rebuilding.nextCursor,
  )
  rebuilding.unremovable = [2]
  rebuilding.meetAnother()
  assert.equal((await inTime(rebuilding.next))?.number, 1)
  rebuilding.stream.events = [told(1, 13)]
  rebuilding.stream.restart()
  const served = rebuilding.serve()
  const { length: tries } = rebuilding.left
  await eventually(
    () => rebuilding.stops > 1 || rebuilding.left.length >= tries + 3,
    () => rebuilding.left,
  )
  assert.deepEqual([rebuilding.stops, rebuilding.left.includes(false)], [1, false])
  rebuilding.unremovable = []
  const next = await inTime(served, () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  const [record] = await recordsOf(next)
  assert.match(record ?? '', new RegExp(`/${evaluation}/b `))
  await next.writer[Symbol.asyncDispose]()
})

test('a rebuild goes on while a replaced generation cannot be removed', async (t) => {
  await using rebuilding = await Rebuilding.start(t, 5)
  await eventually(
    () => rebuilding.nextCursor === 4,
    () => rebuilding.nextCursor,
  )
  rebuilding.unremovable = [3]
  rebuilding.meetAnother()
  assert.equal((await inTime(rebuilding.next))?.number, 1)
  assert.equal(rebuilding.left.at(-1), true)
  rebuilding.stream.events = [told(1, 13)]
  rebuilding.stream.restart()
  const next = await inTime(rebuilding.serve(), () => rebuilding.nextCursor)
  assert.equal(next?.number, 2)
  await next.writer[Symbol.asyncDispose]()
})
