import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GenerationsLeftError } from '@tributary/index-store'
import type { Logger } from '@tributary/telemetry'
import { Removal } from './removal.ts'

test('a generation that cannot be removed is tried again at intervals that grow to a minute, and told once', async () => {
  let nowMs = 0
  const tries: number[] = []
  const told: string[] = []
  let fault = GenerationsLeftError.of(new Map([[2, new Error('operation not permitted')]]))
  const removal = new Removal({
    generations: {
      keepOnly: async () => {
        tries.push(nowMs)
        return fault
      },
    },
    onLeft: () => undefined,
    tryAgainMs: 60_000,
    logger: { warn: (_: unknown, message: string) => told.push(message) } as unknown as Logger, // all that is used
    nowMs: () => nowMs,
  })
  for (; nowMs < 3_600_000; nowMs += 500) assert.equal(await removal.keepOnly([1]), false)
  const intervals = tries.slice(1).map((at, index) => at - (tries[index] ?? 0))
  assert.ok((intervals[0] ?? 0) <= 2500)
  assert.ok(intervals.slice(6).every((interval) => interval >= 30_000 && interval <= 60_500))
  assert.equal(told.length, 1)
  assert.deepEqual([removal.isLeft(1), removal.isLeft(2)], [false, true])

  fault = undefined
  assert.equal(await removal.keepOnlyNow([1]), true)
  assert.equal(removal.isLeft(2), false)
  const { length: count } = tries
  assert.equal(await removal.keepOnly([1]), true)
  assert.equal(tries.length, count + 1)
})
