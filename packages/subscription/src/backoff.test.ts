import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs } from './backoff.ts'

const bounds = { first: 1000, max: 300_000 }
const longest = (failures: number): number => backoffMs(failures, bounds, () => 1)

test('the wait before an attempt doubles with every failure up to its bound', () => {
  assert.deepEqual(
    [0, 1, 2, 8, 9, 1_000_000].map((failures) => longest(failures)),
    [1000, 2000, 4000, 256_000, 300_000, 300_000],
  )
})

test('the wait is drawn at random from all of the time, so that those who fail together spread', () => {
  assert.equal(
    backoffMs(3, bounds, () => 0),
    0,
  )
  assert.equal(
    backoffMs(3, bounds, () => 0.25),
    2000,
  )
})
