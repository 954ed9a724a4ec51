import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SlidingWindow } from './sliding-window.ts'
import { TokenBucket } from './token-bucket.ts'

/** A clock that goes when it is told to. */
function clock(): { nowMs: () => number; pass: (ms: number) => void } {
  let now = 1_700_000_000_000
  return { nowMs: () => now, pass: (ms) => void (now += ms) }
}

test('a bucket holds a second’s worth, fills evenly, and is not filled by a change of its rate', () => {
  const { nowMs, pass } = clock()
  const bucket = new TokenBucket({ perSecond: 100 }, nowMs)
  assert.equal(bucket.available, 100)
  bucket.spend(100)
  assert.equal(bucket.waitMsFor(10), 100)
  pass(50)
  assert.equal(bucket.available, 5)
  bucket.perSecond = 1000
  assert.equal(bucket.available, 5)
  assert.equal(bucket.waitMsFor(5000), 995, 'never longer than until it is full')
  pass(10_000)
  assert.equal(bucket.available, 1000)
  bucket.perSecond = 10
  assert.equal(bucket.available, 10)
  bucket.spend(30)
  assert.equal(bucket.waitMsFor(1), 2100, 'what was read beyond it is paid for')
})

test('a clock that is set back takes nothing from a bucket or a window', () => {
  const { nowMs, pass } = clock()
  const bucket = new TokenBucket({ perSecond: 10 }, nowMs)
  const window = new SlidingWindow(3_600_000, 10, nowMs)
  window.spend(4)
  pass(-3_600_000)
  assert.deepEqual([bucket.available, window.available], [10, 6])
})

test('after a clock was set back a window is as far on as before', () => {
  const { nowMs, pass } = clock()
  const window = new SlidingWindow(3_600_000, 100, nowMs)
  window.spend(60)
  pass(1_800_000)
  window.spend(40)
  const waitMs = window.waitMsFor(1)
  for (const setBackMs of [86_400_000, 1_200_000, 60_000]) {
    pass(-setBackMs)
    assert.deepEqual([window.available, window.waitMsFor(1)], [0, waitMs])
  }
  pass(waitMs)
  assert.equal(window.available, 60)
  pass(1_800_000)
  assert.equal(window.available, 100)
})

test('a window says when room comes back, and what has passed counts on when its limit is changed', () => {
  const { nowMs, pass } = clock()
  const window = new SlidingWindow(3_600_000, 100, nowMs)
  window.spend(60)
  pass(1_800_000)
  window.spend(40)
  assert.equal(window.available, 0)
  const waitMs = window.waitMsFor(1)
  assert.ok(waitMs > 1_800_000 && waitMs <= 1_860_000, `${waitMs}`)
  assert.ok(window.waitMsFor(61) > 3_600_000, 'until what came later is gone')
  window.max = 150
  assert.equal(window.available, 50)
  window.max = 20
  assert.equal(window.available, 0)
  pass(waitMs)
  assert.equal(window.available, 0)
  window.max = Infinity
  assert.equal(window.waitMsFor(1_000_000), 0)
})

test('whatever is read when it is allowed, no stretch of a window’s length has more than its limit', () => {
  const steps = fc.array(fc.record({ ms: fc.nat(900), events: fc.nat(12) }), { maxLength: 200 })
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 30 }), (given, max) => {
      const { nowMs, pass } = clock()
      const window = new SlidingWindow(6000, max, nowMs)
      const read: number[] = []
      for (const { ms, events } of given) {
        pass(ms)
        const taken = Math.min(events, window.available)
        window.spend(taken)
        for (let n = 0; n < taken; n++) read.push(nowMs())
        assert.ok(read.filter((at) => at > nowMs() - 6000).length <= max)
        const waitMs = window.waitMsFor(1)
        assert.equal(waitMs === 0, window.available > 0)
        assert.ok(waitMs <= 6100)
      }
      pass(window.waitMsFor(1))
      assert.ok(window.available > 0, 'there is room when it said there would be')
      pass(window.waitMsFor(max))
      assert.equal(window.available, max)
    }),
  )
})

test('a bucket has a burst of its own, and gives one in advance when it will be there soon enough', () => {
  const { nowMs, pass } = clock()
  const bucket = new TokenBucket({ perSecond: 4, burst: 2 }, nowMs)
  const taken = [0, 0, 0, 500, 500].map((waitMsMax) => bucket.take(waitMsMax))
  assert.deepEqual(
    taken.map(({ isTaken, waitMs }) => [isTaken, waitMs]),
    [
      [true, 0],
      [true, 0],
      [false, 250],
      [true, 250],
      [true, 500],
    ],
  )
  pass(750)
  assert.deepEqual(bucket.take(0), { isTaken: true, waitMs: 0 })
  pass(10_000)
  assert.equal(bucket.available, 2)
})

test('a window without a limit counts what happened, and forgets it step by step', () => {
  const { nowMs, pass } = clock()
  const window = new SlidingWindow(60_000, Infinity, nowMs)
  for (let second = 0; second < 300; second++) {
    window.spend(1)
    pass(1000)
  }
  assert.ok(Math.abs(window.used - 60) <= 1, `${window.used}`)
  pass(30_000)
  assert.ok(Math.abs(window.used - 30) <= 1, `${window.used}`)
  pass(40_000)
  assert.equal(window.used, 0)
})
