import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startSooner } from './start-sooner.ts'

test('programs that tests start have no garbage collector at hand, and keep their other options', () => {
  assert.equal(globalThis.gc, undefined)
  const env = { NODE_OPTIONS: '--max-semi-space-size=8 --expose-gc', TZ: 'UTC' }
  startSooner(env)
  assert.deepEqual(env, { NODE_OPTIONS: '--max-semi-space-size=8', TZ: 'UTC' })
  const none = {}
  startSooner(none)
  assert.deepEqual(none, {})
})
