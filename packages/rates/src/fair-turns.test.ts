import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { FairTurns } from './index.ts'

test('pieces share a slice of time, and the rest wait until the pause after it is over', async () => {
  let nowMs = 0
  const turns = new FairTurns({ underWayMax: 2, sliceMs: 3, clock: { elapsedMs: () => nowMs, after } })
  const done: number[] = []
  const pieces = Array.from({ length: 7 }, async (_, i) =>
    turns.run(`${i}`, () => {
      nowMs += 1
      done.push(i)
    }),
  )
  await untilMicrotasksEnd()
  // One more may have begun when the time was over.
  assert.ok(done.length >= 3 && done.length <= 4, done.join())
  await Promise.all(pieces)
  assert.deepEqual(done, [0, 1, 2, 3, 4, 5, 6])
})

test('pieces that come one after the other do not each begin a new slice', async () => {
  let nowMs = 0
  const turns = new FairTurns({ sliceMs: 2, clock: { elapsedMs: () => nowMs, after } })
  const pieces: Promise<number>[] = []
  for (let i = 0; i < 5; i++) {
    pieces.push(turns.run('a', () => (nowMs += 1)))
    await untilMicrotasksEnd()
  }
  assert.equal(nowMs, 2)
  assert.equal(turns.size, 3)
  assert.equal(turns.sizeOf('a'), 3)
  assert.deepEqual(await Promise.all(pieces), [1, 2, 3, 4, 5])
})

test('a pause that ended late makes the next one longer, up to a bound', async () => {
  let nowMs = 0
  const latenesses = [1, 4, 300, 0]
  const pausesMs: number[] = []
  const turns = new FairTurns({
    sliceMs: 2,
    clock: {
      elapsedMs: () => nowMs,
      after: (ms, call) => {
        pausesMs.push(ms)
        nowMs += ms + (latenesses.shift() ?? 0)
        return setImmediate(call)
      },
    },
  })
  await Promise.all(Array.from({ length: 6 }, async () => turns.run('a', () => void (nowMs += 2))))
  // The first millisecond is the timer's own.
  assert.deepEqual(pausesMs, [2, 2, 2 + 2 * 3, 20, 2, 2])
})

test('a key that has many pieces waits for one of each other key', async () => {
  const turns = new FairTurns()
  const order: string[] = []
  const run = async (key: string): Promise<void> => turns.run(key, () => void order.push(key))
  await Promise.all(['a', 'a', 'a', 'b', 'c', 'c'].map(run))
  // The first one was alone.
  assert.deepEqual(order, ['a', 'a', 'b', 'c', 'a', 'c'])
})

test('a piece that takes its time holds up nobody while another may be under way, and one that throws nobody at all', async () => {
  const turns = new FairTurns({ underWayMax: 2 })
  const slow = Promise.withResolvers<string>()
  const waiting = turns.run('slow', () => slow.promise)
  await assert.rejects(
    turns.run('wrong', () => {
      throw new Error('not this one')
    }),
    /not this one/,
  )
  assert.equal(await turns.run('quick', () => 1), 1)
  let hasBegun = false
  const other = turns.run('other', () => slow.promise)
  const third = turns.run('third', () => (hasBegun = true))
  await delay(50)
  assert.equal(hasBegun, false, 'three at a time')
  slow.resolve('done')
  assert.deepEqual(await Promise.all([waiting, other, third]), ['done', 'done', true])
})

const after = (ms: number, call: () => void): unknown => setTimeout(call, ms)

/** What needs no turn of the event loop is over when this resolves. */
async function untilMicrotasksEnd(): Promise<void> {
  for (let n = 0; n < 100; n++) await Promise.resolve()
}
