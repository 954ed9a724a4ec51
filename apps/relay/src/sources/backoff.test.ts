import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backoffMs } from './backoff.ts'

const hourMs = 3_600_000
const longest = (failures: number, awayMs = 0): number => backoffMs(failures, awayMs, () => 1)

test('the wait before a dial doubles to five minutes, then with the time away to an hour and a day', () => {
  assert.deepEqual(
    [0, 1, 2, 8].map((failures) => longest(failures)),
    [1000, 2000, 4000, 256_000],
  )
  assert.equal(longest(1_000_000), 300_000)
  assert.equal(longest(1_000_000, 24 * hourMs), 300_000)
  assert.equal(longest(1_000_000, 25 * hourMs), hourMs)
  assert.equal(longest(1_000_000, 8 * 24 * hourMs), 24 * hourMs)
})

test('it is drawn at random from all of the time, so that hosts are not dialled together', () => {
  assert.equal(
    backoffMs(3, 0, () => 0),
    0,
  )
  assert.equal(
    backoffMs(3, 0, () => 0.25),
    2000,
  )
})
