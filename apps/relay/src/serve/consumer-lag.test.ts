import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LogSlice } from '@tributary/event-log'
import { lagSecondsAt } from './consumer-lag.ts'

test('the lag in seconds is the age of the first event that was not sent, where memory has it', () => {
  const log = {
    visibleSeq: 100,
    readMemory: (afterSeq: number) =>
      afterSeq < 50 ? undefined : [{ timeMsAt: () => afterSeq * 1000 } as unknown as LogSlice], // all that is asked for
  }
  assert.deepEqual(
    [100, 90, 50, 49].map((position) => lagSecondsAt(log, position, 100_000)),
    [0, 10, 50, undefined],
  )
})
