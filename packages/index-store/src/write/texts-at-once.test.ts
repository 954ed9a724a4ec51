import assert from 'node:assert/strict'
import { test } from 'node:test'
import { textsAtOnce } from './texts-at-once.ts'

function stepsOf(sizes: readonly number[]): number[][] {
  const records = sizes.map((bytes, index) => ({ uri: String(index), bytes: BigInt(bytes) }))
  return [...textsAtOnce(records)].map((uris) => uris.map(Number))
}

test('short texts are read together, and a long one is read by itself', () => {
  assert.deepEqual(stepsOf([]), [])
  assert.deepEqual(stepsOf([100, 100, 900_000, 100, 300_000, 300_000]), [[0, 1], [2], [3, 4], [5]])
})

test('a step has at most fifty texts, and none is left out', () => {
  const steps = stepsOf(Array.from({ length: 120 }, () => 10))
  assert.deepEqual(
    steps.map(({ length }) => length),
    [50, 50, 20],
  )
  assert.deepEqual(
    steps.flat(),
    Array.from({ length: 120 }, (_, index) => index),
  )
})
