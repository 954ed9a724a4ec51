import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SourceRate } from './source-rate.ts'

test('what is left of a source is said per window, and nothing of a window that is off', () => {
  let nowMs = 1_700_000_000_000
  const rate = new SourceRate({ perSecond: 50, perHour: 100, perDay: Infinity }, () => nowMs)
  for (const allowance of rate.allowances) allowance.spend(50)
  nowMs += 1000
  for (const allowance of rate.allowances) allowance.spend(50)
  const [second, hour, ...more] = rate.budgets()
  assert.deepEqual(second, { window: 'second', limit: 50, left: 0, waitMs: 20, refillMs: 1000 })
  assert.deepEqual([hour?.window, hour?.limit, hour?.left, more.length], ['hour', 100, 0, 0])
  assert.ok((hour?.waitMs ?? 0) > 3_590_000 && (hour?.waitMs ?? 0) <= 3_660_000)
  rate.rates = { perSecond: 50, perHour: 2600, perDay: 21_000 }
  assert.deepEqual(
    rate.budgets().map(({ window, limit, left }) => [window, limit, left]),
    [
      ['second', 50, 0],
      ['hour', 2600, 2500],
      ['day', 21_000, 20_900],
    ],
  )
})
