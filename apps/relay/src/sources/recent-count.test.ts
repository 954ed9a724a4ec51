import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecentCount } from './recent-count.ts'

test('what happened within the last minute is counted, and what is older is forgotten step by step', () => {
  const count = new RecentCount()
  const startMs = 1_000_000
  for (let second = 0; second < 300; second++) count.note(startMs + second * 1000)
  const lastMs = startMs + 299_000
  assert.ok(Math.abs(count.lastMinute(lastMs) - 60) <= 1, `${count.lastMinute(lastMs)}`)
  const halfLater = count.lastMinute(lastMs + 30_000)
  assert.ok(Math.abs(halfLater - 30) <= 1, `${halfLater}`)
  assert.equal(count.lastMinute(lastMs + 70_000), 0)
  count.note(lastMs + 1_000_000)
  assert.equal(count.lastMinute(lastMs + 1_000_001), 1)
})
