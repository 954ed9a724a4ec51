import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endLargest } from './end-largest.ts'

test('of a network the largest holders end, and many that have to go take a few looks at each', () => {
  const holders = 1000
  let looks = 0
  const holderOf = (_: unknown, at: number) => ({
    at,
    network: `network ${at % 500}`,
    get bytes() {
      looks++
      // Each network has a small one and a large one.
      return at < 500 ? 100 : 1000 + at
    },
  })
  const ended: number[] = []
  endLargest(Array.from({ length: holders }, holderOf), 500 * 100, ({ at }) => ended.push(at))
  assert.deepEqual(
    ended,
    Array.from({ length: 500 }, (_, at) => 999 - at),
  )
  assert.ok(looks < 50 * holders, `${looks} looks`)
})
