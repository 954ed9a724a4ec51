import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SealedSegment } from '@tributary/segment/node'
import { clampedPosition, lookBackFloor, startPosition } from './start-position.ts'

const hourMs = 3_600_000
const nowMs = Date.UTC(2026, 0, 10)

/** A sealed segment as far as the look-back is concerned: its rows were seen up to some hours ago. */
function segment(minSeq: number, maxSeq: number, hoursAgo: number): Pick<SealedSegment, 'header'> {
  const maxWitnessedAt = (nowMs - hoursAgo * hourMs) * 1000
  return { header: { minSeq, maxSeq, maxWitnessedAt } as SealedSegment['header'] } // the other fields are not read
}

const sealed = [segment(1, 100, 80), segment(101, 200, 40), segment(201, 300, 20), segment(301, 400, 5)]
const lookBack = { lookBackMs: 36 * hourMs, lost: [], nowMs, sealed }
const delivery = {
  headSeq: 450,
  seqWitnessedAt: async (micros: number) => {
    if (micros > nowMs * 1000) return 451
    return micros < (nowMs - 40 * hourMs) * 1000 ? 90 : 420
  },
  oldestWitnessedAt: () => (nowMs - 90 * hourMs) * 1000,
}

test('the floor is the start of the first segment with a row inside the look-back', () => {
  assert.equal(lookBackFloor(lookBack), 201)
})

test('the newest sealed segment can always be replayed, and an archive without older rows has no floor', () => {
  assert.equal(lookBackFloor({ ...lookBack, lookBackMs: hourMs }), 301)
  assert.equal(lookBackFloor({ ...lookBack, sealed: sealed.slice(2) }), 0)
  assert.equal(lookBackFloor({ ...lookBack, sealed: [] }), 0)
})

test('a seq is inclusive, and 0 is the first one', async () => {
  assert.deepEqual(await startPosition(300, delivery, lookBack), { afterSeq: 299 })
  assert.deepEqual(await startPosition(0, delivery, { ...lookBack, sealed: [] }), { afterSeq: 0 })
  assert.deepEqual(await startPosition(undefined, delivery, lookBack), { afterSeq: 450 })
})

test('a seq below the floor is refused with the floor', async () => {
  await assert.rejects(startPosition(200, delivery, lookBack), {
    status: 400,
    error: 'CursorTooOld',
    message: /201/,
  })
  await assert.rejects(startPosition(0, delivery, lookBack), { error: 'CursorTooOld' })
})

test('the next seq is no surprise, one further ahead is told and continues live', async () => {
  assert.deepEqual(await startPosition(451, delivery, lookBack), { afterSeq: 450 })
  const ahead = await startPosition(452, delivery, lookBack)
  assert.equal(ahead.afterSeq, 450)
  assert.equal(ahead.info?.name, 'FutureCursor')
})

test('a seq that a repair has lost is told as such, and the next row is above all that were lost', async () => {
  const repaired = {
    ...lookBack,
    lost: [
      { afterSeq: 450, throughSeq: 460 },
      { afterSeq: 470, throughSeq: 480 },
    ],
  }
  assert.deepEqual(await startPosition(451, delivery, repaired), { afterSeq: 450 })
  for (const headSeq of [450, 470]) {
    const source = { ...delivery, headSeq }
    const { afterSeq, info } = await startPosition(455, source, repaired)
    assert.equal(afterSeq, 460)
    assert.deepEqual([info?.name, info?.firstSeq, info?.lastSeq], ['UnreadableEvents', 455, 460])
    assert.equal(await clampedPosition(455, source, repaired), 460)
  }
  assert.equal((await startPosition(475, { ...delivery, headSeq: 470 }, repaired)).afterSeq, 480)
  assert.equal((await startPosition(461, delivery, repaired)).info?.name, 'FutureCursor')
})

test('a time stands for the first row seen at or after it, and is clamped to the floor', async () => {
  assert.deepEqual(await startPosition((nowMs - hourMs) * 1000, delivery, lookBack), { afterSeq: 419 })
  const old = await startPosition((nowMs - 80 * hourMs) * 1000, delivery, lookBack)
  assert.equal(old.afterSeq, 200)
  assert.equal(old.info?.name, 'OutdatedCursor')
  const future = await startPosition((nowMs + hourMs) * 1000, delivery, lookBack)
  assert.equal(future.afterSeq, 450)
  assert.equal(future.info?.name, 'FutureCursor')
})

test('a time that the clock has not reached since it was set back stands for the rows that were seen then', async () => {
  const seen = { ...delivery, seqWitnessedAt: async () => 420 }
  const ahead = (nowMs + hourMs) * 1000
  assert.deepEqual(await startPosition(ahead, seen, lookBack), { afterSeq: 419 })
  assert.equal(await clampedPosition(ahead, seen, lookBack), 419)
})

test('without a look-back every cursor starts at the tip', async () => {
  assert.deepEqual(await startPosition(5, delivery, { ...lookBack, lookBackMs: 0 }), { afterSeq: 450 })
})

test('only a time before the oldest row, or before the floor, is told to be outdated', async () => {
  const oldest = (nowMs - 90 * hourMs) * 1000
  const whole = { ...lookBack, sealed: [] }
  assert.deepEqual(await startPosition(oldest, delivery, whole), { afterSeq: 89 })
  assert.equal((await startPosition(oldest - 1, delivery, whole)).info?.name, 'OutdatedCursor')
  const atFloor = { ...delivery, seqWitnessedAt: async () => 201 }
  assert.deepEqual(await startPosition((nowMs - 20 * hourMs) * 1000, atFloor, lookBack), { afterSeq: 200 })
})
