import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reading } from './reading.ts'

/** A source that was caught up with when its clock began, and what came of it. */
function begin() {
  const clock = { nowMs: 1_000_000 }
  const heard = { lastEventAtMs: 0, eventAgeMs: 0 }
  const reading = new Reading(heard, () => clock.nowMs, clock.nowMs)
  return {
    reading,
    wait: (ms: number) => void (clock.nowMs += ms),
    /** A message comes that is so old. */
    hear: (eventAgeMs: number) => void Object.assign(heard, { eventAgeMs, lastEventAtMs: clock.nowMs }),
  }
}

test('the lag is the age of messages when they come, and 0 once nothing more comes', () => {
  const { reading, wait, hear } = begin()
  reading.open()
  hear(5000)
  assert.equal(reading.lagMs, 5000)
  wait(10_001)
  assert.equal(reading.lagMs, 0)
})

test('without a connection the lag counts from when the source was last caught up with', () => {
  const { reading, wait, hear } = begin()
  wait(60_000)
  assert.equal(reading.lagMs, 60_000, 'it never had one')
  reading.open()
  hear(7000)
  reading.close()
  wait(20_000)
  assert.equal(reading.lagMs, 27_000)
  // A connection that has brought nothing yet does not say that there is nothing.
  reading.open()
  wait(5000)
  assert.equal(reading.lagMs, 32_000)
  reading.close()
  wait(5000)
  assert.equal(reading.lagMs, 37_000)
  reading.open()
  wait(10_001)
  assert.equal(reading.lagMs, 0, 'it has sent all it has')
})

test('while reading is paused the lag grows, and does not stay at what was sampled before', () => {
  const { reading, wait, hear } = begin()
  reading.open()
  hear(1000)
  reading.setPause('disk-floor')
  wait(3_600_000)
  assert.equal(reading.lagMs, 3_601_000)
  reading.setPause(undefined)
  hear(3_600_500)
  assert.equal(reading.lagMs, 3_600_500)
})

test('what came at a date to come makes no lag after the date was set back', () => {
  const { reading, wait, hear } = begin()
  wait(3_600_000)
  reading.open()
  hear(3_600_000)
  wait(-3_600_000)
  assert.equal(reading.lagMs, 0)
})

test('a source that was opened at a date to come has no lag soon after the date was set back', () => {
  const { reading, wait } = begin()
  wait(3_600_000)
  reading.open()
  wait(-3_600_000)
  assert.equal(reading.lagMs, 0)
  wait(10_001)
  assert.equal(reading.lagMs, 0)
})

test('rate and disk are told at once, other reasons once they last', () => {
  const { reading, wait } = begin()
  reading.open()
  reading.setPause('rate')
  assert.equal(reading.pauseReason, 'rate')
  reading.setPause(undefined)
  wait(60_000)
  reading.setPause('identities')
  assert.equal(reading.pauseReason, undefined)
  wait(10_000)
  assert.equal(reading.pauseReason, 'identities')
})

test('an outage and a pause count from when a date that was set back is noticed', () => {
  const { reading, wait } = begin()
  const times = () => [reading.awayMs, reading.lagMs, reading.pauseReason]
  wait(-3_600_000)
  assert.deepEqual(times(), [0, 0, undefined])
  wait(150_000)
  assert.deepEqual(times(), [150_000, 150_000, undefined])
  reading.open()
  reading.setPause('backlog')
  wait(-3_600_000)
  assert.equal(reading.pauseReason, undefined)
  wait(10_000)
  assert.equal(reading.pauseReason, 'backlog')
})
