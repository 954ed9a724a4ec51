import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleDid } from '../tests/sample-document.ts'
import { DirectoryHealth } from './directory-health.ts'

test('however many wait for the directory, each comes back within five seconds, and not all in the same moment', () => {
  const health = new DirectoryHealth(() => 1000)
  const told = Array.from({ length: 10_000 }, () => health.retryAfterMs())
  assert.ok(Math.min(...told) >= 500)
  assert.equal(Math.max(...told), 5000)
  assert.ok(new Set(told).size > 4000)
})

test('after the clock was set back, a directory that is away is tried at once', () => {
  let nowMs = 1_000_000
  const health = new DirectoryHealth(() => nowMs)
  for (let n = 0; n < 100; n++) health.noteFailure(sampleDid(n))
  health.noteTry()
  assert.equal(health.refusal()?.reason, 'unavailable')
  nowMs -= 60_000
  assert.equal(health.refusal(), undefined)
})
