import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DialPace } from './dial-pace.ts'

test('2,000 sources that are lost at once are dialled over ten seconds, and one later without a wait', () => {
  let nowMs = 0
  const pace = new DialPace(() => nowMs)
  const waits = Array.from({ length: 2000 }, () => pace.take())
  assert.deepEqual([waits[0], waits[1], waits.at(-1)], [0, 5, 9995])
  nowMs = 60_000
  assert.equal(pace.take(), 0)
})
