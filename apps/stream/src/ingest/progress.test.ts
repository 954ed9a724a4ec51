import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Progress } from './progress.ts'

test('what is done is the contiguous prefix, whatever order events finish in', () => {
  const progress = new Progress(10)
  for (const seq of [11, 13, 20]) progress.begin(seq)
  assert.equal(progress.done, 10)
  progress.finish(20)
  progress.finish(13)
  assert.equal(progress.done, 10)
  progress.finish(11)
  assert.equal(progress.done, 20)
  assert.equal(progress.newest, 20)
})
