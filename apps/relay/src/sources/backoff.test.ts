import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialBounds } from './backoff.ts'

const hourMs = 3_600_000

test('the longest wait before a dial grows with the time away, from five minutes to an hour and a day', () => {
  assert.deepEqual(dialBounds(0), { first: 1000, max: 300_000 })
  assert.equal(dialBounds(24 * hourMs).max, 300_000)
  assert.equal(dialBounds(25 * hourMs).max, hourMs)
  assert.equal(dialBounds(8 * 24 * hourMs).max, 24 * hourMs)
})
