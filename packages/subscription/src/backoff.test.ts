import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs } from './backoff.ts'

const bounds = { first: 1000, max: 300_000 }
const longest = (awayMs: number): number => backoffMs(awayMs, bounds, () => 1)

test('the wait before an attempt is a quarter of the time away at most, within its bounds', () => {
  assert.deepEqual(
    [0, 4000, 8000, 40_000, 1_200_000, 1e12].map((awayMs) => longest(awayMs)),
    [1000, 1000, 2000, 10_000, 300_000, 300_000],
  )
})

test('the wait is drawn at random from all of the time, so that those who fail together spread', () => {
  assert.equal(
    backoffMs(32_000, bounds, () => 0),
    0,
  )
  assert.equal(
    backoffMs(32_000, bounds, () => 0.25),
    2000,
  )
})
