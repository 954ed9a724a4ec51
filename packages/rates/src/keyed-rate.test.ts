import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyedRate } from './keyed-rate.ts'

test('each key may happen so often within a window, and again in the next', () => {
  const rate = new KeyedRate<string>({ max: 2, windowMs: 1000, keysMax: 10 })
  const taken = [0, 100, 200, 999, 1000].map((ms) => rate.take('a', ms))
  assert.deepEqual(taken, [0, 0, 800, 1, 0])
  assert.equal(rate.take('b', 200), 0)
})

test('many new keys do not let a key begin again that goes on beyond its rate', () => {
  const keysMax = 1000
  const rate = new KeyedRate<number>({ max: 3, windowMs: 60_000, keysMax })
  for (let n = 0; n < 3; n++) assert.equal(rate.take(-1, 0), 0)
  for (let key = 0; key < 10 * keysMax; key++) {
    rate.take(key, 0)
    if (key % 100 === 0) assert.ok(rate.take(-1, 0) > 0, `it may again after ${key} others`)
  }
})

test('only the key that was not seen for the longest time is forgotten for a new one', () => {
  const rate = new KeyedRate<number>({ max: 1, windowMs: 60_000, keysMax: 100 })
  for (let key = 0; key <= 100; key++) assert.equal(rate.take(key, 0), 0)
  for (let key = 1; key <= 100; key++) assert.ok(rate.take(key, 0) > 0, `${key} is forgotten`)
  assert.equal(rate.take(0, 0), 0)
})

test('asking whether it may happen counts nothing, and a key that is forgotten begins again', () => {
  const rate = new KeyedRate<string>({ max: 1, windowMs: 1000, keysMax: 10 })
  assert.deepEqual([rate.waitMsFor('a', 0), rate.take('a', 0), rate.waitMsFor('a', 400)], [0, 0, 600])
  assert.equal(rate.waitMsFor('a', 1000), 0)
  rate.forget('a')
  assert.equal(rate.take('a', 400), 0)
})

test('after a clock was set back nothing extra passes, and nobody waits longer than a window', () => {
  const rate = new KeyedRate<string>({ max: 2, windowMs: 1000, keysMax: 10 })
  for (const ms of [100_000, 100_001]) assert.equal(rate.take('a', ms), 0)
  assert.deepEqual(
    [rate.take('a', 50_000), rate.waitMsFor('a', 50_400), rate.take('a', 51_000)],
    [1000, 600, 0],
  )
})
