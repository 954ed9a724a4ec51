import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WaitingMessages } from './waiting-messages.ts'

/** Adds messages until the source is paused, and takes them until it goes on. */
function turn(bytes: number): { added: number; taken: number; count: number } {
  const source = { isPaused: false }
  const waiting = new WaitingMessages({
    pause: () => (source.isPaused = true),
    resume: () => (source.isPaused = false),
  })
  let [added, taken] = [0, 0]
  for (; !source.isPaused; added++) waiting.add(Buffer.alloc(bytes))
  // What was under way comes nevertheless.
  waiting.add(Buffer.alloc(bytes))
  for (; source.isPaused; taken++) waiting.take()
  return { added, taken, count: waiting.count }
}

test('messages wait by their bytes, and many small ones by their number', () => {
  assert.deepEqual(turn(5_000_000), { added: 4, taken: 4, count: 1 })
  assert.deepEqual(turn(1000), { added: 500, taken: 252, count: 249 })
})

test('messages are taken in their order, and none is nothing', () => {
  const waiting = new WaitingMessages({ pause: () => {}, resume: () => {} })
  for (const text of ['a', 'b']) waiting.add(Buffer.from(text))
  assert.deepEqual(
    [waiting.take(), waiting.take(), waiting.take()].map((message) => message?.toString()),
    ['a', 'b', undefined],
  )
})
