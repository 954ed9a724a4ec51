import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FairTurns } from './index.ts'

test('pieces share a turn of the event loop until their time is over, and the rest wait for the next', async () => {
  let nowMs = 0
  const turns = new FairTurns({ underWayMax: 2, sliceMs: 3, nowMs: () => nowMs })
  const done: number[] = []
  const pieces = Array.from({ length: 7 }, async (_, i) =>
    turns.run(`${i}`, () => {
      nowMs += 1
      done.push(i)
    }),
  )
  await untilMicrotasksEnd()
  assert.deepEqual(done, [0, 1, 2])
  await nextTurn()
  assert.deepEqual(done, [0, 1, 2, 3, 4, 5])
  await Promise.all(pieces)
  assert.deepEqual(done, [0, 1, 2, 3, 4, 5, 6])
})

test('pieces that come one after the other in one turn do not each begin a new time', async () => {
  let nowMs = 0
  const turns = new FairTurns({ sliceMs: 2, nowMs: () => nowMs })
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
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  assert.equal(hasBegun, false, 'three at a time')
  slow.resolve('done')
  assert.deepEqual(await Promise.all([waiting, other, third]), ['done', 'done', true])
})

/** Promises that are settled have told so when this resolves, in the same turn of the event loop. */
async function untilMicrotasksEnd(): Promise<void> {
  await new Promise<void>((resolve) => process.nextTick(resolve))
}
