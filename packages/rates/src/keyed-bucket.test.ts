import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyedBucket } from './keyed-bucket.ts'

const perSecond = { perMinute: 60, burst: 3, keysMax: 2 }

test('a burst may happen at once, and then one more with each step of the pace', () => {
  const bucket = new KeyedBucket<string>(perSecond)
  const taken = (nowMs: number): number => bucket.take('a', nowMs)
  assert.deepEqual([taken(0), taken(0), taken(0), taken(0)], [0, 0, 0, 1000])
  assert.deepEqual([taken(400), taken(1000), taken(1000)], [600, 0, 1000])
  assert.deepEqual([taken(60_000), taken(60_000), taken(60_000), taken(60_000)], [0, 0, 0, 1000])
})

test('keys do not share a bucket, and the one that was not seen for the longest time is forgotten', () => {
  const bucket = new KeyedBucket<string>(perSecond)
  for (let count = 0; count < 3; count++) for (const key of ['a', 'b']) assert.equal(bucket.take(key, 0), 0)
  assert.equal(bucket.take('a', 0), 1000)
  assert.equal(bucket.take('c', 0), 0)
  assert.equal(bucket.take('a', 0), 1000)
  assert.equal(bucket.take('b', 0), 0)
})

test('a clock that is set back makes nobody wait longer than an empty bucket does, and lets nothing extra pass', () => {
  const bucket = new KeyedBucket<string>(perSecond)
  for (let count = 0; count < 3; count++) bucket.take('a', 1_000_000)
  assert.equal(bucket.take('a', 0), 1000)
  assert.equal(bucket.take('a', 1000), 0)
  assert.equal(bucket.take('a', 1000), 1000)
})
