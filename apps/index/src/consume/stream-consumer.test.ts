/** The index goes on with the stream that it has followed, wherever that is, and with no other. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStreamClient } from '@tributary/client/node'
import { feedCollections, type StreamEvent } from '@tributary/protocol'
import { createLogger } from '@tributary/telemetry'
import { eventually, SmallStream } from '@tributary/testkit'
import { deleteEvent, putEvent, Scenario } from '../../tests/scenario.ts'
import { sourceOf } from '../fold/followed-stream.ts'
import { consumeStream, type StreamProgress } from './stream-consumer.ts'

const logger = createLogger('index-test', { level: 'silent' })
const { evaluation } = feedCollections

function timeOf(seq: number, day = 4): string {
  return `2026-03-0${day}T12:00:0${seq % 10}.000000Z`
}

const put = (seq: number, rkey: string, day = 4): StreamEvent =>
  putEvent(seq, timeOf(seq, day), 'A', evaluation, rkey, {}).event
const remove = (seq: number, rkey: string): StreamEvent =>
  deleteEvent(seq, timeOf(seq), 'A', evaluation, rkey)

/** The index at work on a scenario's database. */
class Following implements AsyncDisposable {
  progress: StreamProgress | undefined
  /** Its first report. */
  first: StreamProgress | undefined
  readonly #stop = new AbortController()
  unreadable = 0
  readonly #done: Promise<void>

  constructor({ fold }: Scenario, url: string, source = sourceOf(url)) {
    this.#done = consumeStream({
      client: createStreamClient({ url, retry: { firstMs: 1, maxMs: 5 } }),
      source,
      collections: [evaluation],
      fold,
      logger,
      signal: this.#stop.signal,
      onProgress: (now) => {
        this.progress = now
        this.first ??= now
      },
      onApplied: () => undefined,
      onUnreadable: (events) => (this.unreadable += events),
    })
  }

  async until(cursor: number): Promise<void> {
    await eventually(
      () => this.progress?.cursor === cursor && this.progress.state === 'live',
      () => this.progress,
    )
  }

  /** Waits until the stream is refused. */
  async refused(): Promise<void> {
    await eventually(
      () => this.progress?.detail.includes('another stream') === true,
      () => this.progress,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort()
    await this.#done
  }
}

const history = [put(1, 'gone'), put(2, 'kept'), remove(3, 'gone'), put(4, 'late')]
const shown = ['evaluation.create kept', 'evaluation.create late']

async function followed(world: Scenario, events: readonly StreamEvent[]): Promise<void> {
  await using stream = await SmallStream.start(events)
  await using following = new Following(world, stream.url)
  await following.until(events.at(-1)?.seq ?? 0)
}

test('a stream that has moved is followed on from where it was', async () => {
  await using world = await Scenario.start()
  await followed(world, history)
  await using moved = await SmallStream.start([...history, put(5, 'new')])
  await using following = new Following(world, moved.url)
  await following.until(5)
  assert.deepEqual((await world.entries()).toSorted(), [...shown, 'evaluation.create new'])
})

test('before the stream has answered, and after the end, it is said that the stream is not followed', async () => {
  await using world = await Scenario.start()
  await followed(world, history)
  await using stream = await SmallStream.start(history)
  await using following = new Following(world, stream.url)
  await following.until(4)
  const { cursor, state, isAnother } = following.first ?? {}
  assert.deepEqual([cursor, state, isAnother], [4, 'waiting', undefined])
  await following[Symbol.asyncDispose]()
  assert.deepEqual([following.progress?.cursor, following.progress?.state], [4, 'waiting'])
})

test('a stream whose compaction has removed events is the same', async () => {
  await using world = await Scenario.start()
  await followed(world, history)
  await using compacted = await SmallStream.start([put(2, 'kept'), put(5, 'new')])
  await using following = new Following(world, compacted.url)
  await following.until(5)
  assert.deepEqual((await world.entries()).toSorted(), [...shown, 'evaluation.create new'])
})

test('the beginning of another stream does not bring back what is deleted', async () => {
  await using world = await Scenario.start()
  await followed(world, history)
  await using other = await SmallStream.start([put(1, 'gone', 5), put(2, 'kept', 5)])
  await using following = new Following(world, other.url)
  await following.refused()
  assert.deepEqual((await world.entries()).toSorted(), shown)
})

test('a stream set up anew is not followed, though its numbers have passed the cursor', async () => {
  await using world = await Scenario.start()
  await followed(world, [put(10, 'gone'), put(20, 'kept'), remove(30, 'gone'), put(40, 'late')])
  for (const seqs of [
    [10, 20, 30, 40, 50],
    [15, 40, 50],
    [15, 25, 50],
  ]) {
    await using anew = await SmallStream.start(seqs.map((seq) => put(seq, `k${seq}`, 5)))
    await using following = new Following(world, anew.url)
    await following.refused()
    assert.deepEqual((await world.entries()).toSorted(), shown, seqs.join())
  }
})

test('a stream that changes while the index is connected is noticed at the next connection', async () => {
  await using world = await Scenario.start()
  await using stream = await SmallStream.start(history)
  await using following = new Following(world, stream.url)
  await following.until(4)
  stream.events = [put(1, 'p', 5), put(2, 'q', 5), put(3, 'r', 5), put(4, 's', 5), put(5, 't', 5)]
  stream.restart()
  await following.refused()
  assert.deepEqual((await world.entries()).toSorted(), shown)
})

test('events that the stream cannot read are counted, and the cursor passes them', async () => {
  await using world = await Scenario.start()
  await using stream = await SmallStream.start(history)
  await using following = new Following(world, stream.url)
  await following.until(4)
  stream.tellUnreadable(5, 9)
  stream.send(put(10, 'new'))
  await following.until(10)
  assert.equal(following.unreadable, 1, 'the place')
})

test('the same stream goes on after its connection has ended', async () => {
  await using world = await Scenario.start()
  await using stream = await SmallStream.start(history)
  await using following = new Following(world, stream.url)
  await following.until(4)
  stream.restart()
  stream.send(put(5, 'new'))
  await following.until(5)
  assert.equal((await world.entries()).length, 3)
})

test('an address is the same in every spelling, and of an unknown stream at another nothing is read', async () => {
  assert.equal(sourceOf('ws://Stream.Example:80/'), sourceOf('http://stream.example'))
  await using world = await Scenario.start()
  await followed(world, history)
  // As an earlier version has left it.
  await world.connection.write(async (batch) => {
    await batch.keepNewestEvents(0)
    await batch.remove('cursors', ['stream:test'])
    await batch.put('cursors', [{ source: 'stream:ws://Stream.example:80/', cursor: 4n }])
  })
  assert.equal(await world.fold.stream.rename(sourceOf('http://elsewhere.example')), false)
  assert.equal(await world.fold.stream.rename(sourceOf('http://stream.example')), true)
  assert.equal(await world.fold.stream.cursor('stream:http://stream.example'), 4)
})
