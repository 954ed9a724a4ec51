import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createLogger } from '@tributary/telemetry'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { day, putEvent, views } from '../../tests/scenario.ts'
import { Fold } from '../fold/fold.ts'
import { NewStream } from './new-stream.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

function newStream(afterMs: number): NewStream {
  const logger = createLogger('new-stream-test', { level: 'silent' })
  return new NewStream({ afterMs, onHeldBack: () => undefined, logger })
}

function stopClock(t: TestContext): { advance: (ms: number) => void } {
  t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 2, 3) })
  return { advance: (ms) => t.mock.timers.setTime(Date.now() + ms) }
}

test('a rebuild begins by itself when the stream has been another one for long, without a break', async (t) => {
  const clock = stopClock(t)
  await using present = await openTestIndex()
  const stream = newStream(10 * minuteMs)
  assert.equal(await stream.isDue(present, true), false)
  clock.advance(9 * minuteMs)
  assert.equal(await stream.isDue(present, true), false)
  assert.equal(await stream.isDue(present, false), false)
  assert.equal(await stream.isDue(present, true), false)
  clock.advance(10 * minuteMs)
  assert.equal(await stream.isDue(present, undefined), false)
  assert.equal(await stream.isDue(present, true), true)
})

test('after an attempt that came to nothing the next one waits twice as long', async (t) => {
  const clock = stopClock(t)
  await using present = await openTestIndex()
  const stream = newStream(10 * minuteMs)
  const waits: number[] = []
  for (let attempt = 0; attempt < 4; attempt++) {
    let minutes = 0
    for (; !(await stream.isDue(present, true)); minutes++) clock.advance(minuteMs)
    waits.push(minutes)
    stream.begin()
    stream.end()
  }
  assert.deepEqual(waits, [10, 20, 40, 80])
})

test('a stream is taken over by itself once a day at most, also over restarts', async (t) => {
  const clock = stopClock(t)
  await using present = await openTestIndex()
  await newStream(minuteMs).note(present)
  const restarted = newStream(minuteMs)
  await restarted.isDue(present, true)
  clock.advance(23 * hourMs)
  assert.equal(await restarted.isDue(present, true), false)
  clock.advance(hourMs)
  assert.equal(await restarted.isDue(present, true), true)
})

test('a clock that was ahead when a stream was taken over, or was found to be another one, delays nothing', async (t) => {
  const clock = stopClock(t)
  await using present = await openTestIndex()
  const stream = newStream(10 * minuteMs)
  await stream.note(present)
  await stream.isDue(present, true)
  clock.advance(-1000 * 24 * hourMs)
  assert.equal(await stream.isDue(present, true), false)
  clock.advance(10 * minuteMs)
  assert.equal(await stream.isDue(present, true), true)
})

test('none begins by itself with 0', async (t) => {
  const clock = stopClock(t)
  await using present = await openTestIndex()
  const stream = newStream(0)
  await stream.isDue(present, true)
  clock.advance(48 * hourMs)
  assert.equal(await stream.isDue(present, true), false)
})

test('what was built is whole when it has nine of ten accounts that are shown', async () => {
  await using present = await openTestIndex()
  await using built = await openTestIndex()
  const events = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].map(
    (who, index) =>
      putEvent(index + 1, `${day}T10:00:00Z`, who, 'org.impact.context.evaluation', 'a', {
        createdAt: `${day}T09:00:00Z`,
      }).event,
  )
  const fold = new Fold(built, { updateContentTypes: [] }, views)
  await new Fold(present, { updateContentTypes: [] }, views).apply('stream:http://a', events, 10)
  await fold.apply('stream:http://a', events.slice(0, 8), 8)
  assert.equal(await newStream(1).isWhole(present, built), false)
  await fold.apply('stream:http://a', events.slice(0, 9), 9)
  assert.equal(await newStream(1).isWhole(present, built), true)
})
