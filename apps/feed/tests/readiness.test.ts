import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createReadiness } from '../src/serve/readiness.ts'

test('any number of questions whether the service is ready make one look in a second', async () => {
  let [nowMs, looks] = [1_000_000, 0]
  let isReady = false
  const ask = createReadiness(
    async () => {
      looks++
      await new Promise(setImmediate)
      return isReady
    },
    () => nowMs,
  )
  assert.deepEqual(await Promise.all([ask(), ask(), ask()]), [false, false, false])
  isReady = true
  nowMs += 999
  assert.equal(await ask(), false)
  assert.equal(looks, 1)
  nowMs += 1
  assert.equal(await ask(), true)
  isReady = false
  nowMs -= 3_600_000
  assert.equal(await ask(), false, 'after the clock was set back')
  assert.equal(looks, 3)
})
