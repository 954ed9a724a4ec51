import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TimeSeeks } from './time-seeks.ts'

test('a seek waits for one of each other network, whatever these ask for', async () => {
  const order: number[] = []
  const gates: (() => void)[] = []
  const seeks = new TimeSeeks({
    headSeq: 9,
    oldestWitnessedAt: () => 1,
    seqWitnessedAt: async (micros) => {
      order.push(micros)
      // The first two are read from a disk that hangs.
      if (order.length <= 2) await new Promise<void>((resolve) => gates.push(resolve))
      return micros
    },
  })
  const flood = Array.from({ length: 40 }, (_, i) => seeks.of(`2001:db8::${i}`).seqWitnessedAt(i))
  const own = seeks.of('192.0.2.1').seqWitnessedAt(1000)
  for (const open of gates) open()
  assert.equal(await own, 1000)
  assert.deepEqual(order.slice(0, 4), [0, 1, 2, 1000])
  assert.deepEqual(
    await Promise.all(flood),
    Array.from({ length: 40 }, (_, i) => i),
  )
})
