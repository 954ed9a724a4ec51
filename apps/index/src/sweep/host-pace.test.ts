import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NoPlaceError } from '../host-places.ts'
import { HostPace } from './host-pace.ts'

const host = 'https://large.example'

class Paced {
  nowMs = 1_000_000
  readonly pace = new HostPace({ apartMs: 125, withinMs: 10_000, nowMs: () => this.nowMs })

  /** Milliseconds to wait; 0 when it had a turn. */
  take(of = host): number {
    try {
      this.pace.take(of)
      return 0
    } catch (error) {
      if (error instanceof NoPlaceError) return error.waitMs
      throw error
    }
  }

  takes(count: number): number[] {
    return Array.from({ length: count }, () => this.take())
  }
}

test('a host is asked at its pace, and whoever comes too early is told to come back one after the other', () => {
  const paced = new Paced()
  assert.deepEqual(paced.takes(11), [...Array.from({ length: 8 }, () => 0), 1000, 1125, 1250])
  assert.equal(paced.take('https://small.example'), 0)
  paced.nowMs += 125
  assert.deepEqual(paced.takes(2), [0, 1250])
})

test('nobody is told to come back later than the time in which all are asked, also after a clock was ahead', () => {
  const paced = new Paced()
  assert.ok(paced.takes(500).every((waitMs) => waitMs <= 10_000))
  paced.nowMs += 86_400_000
  paced.takes(20)
  paced.nowMs -= 86_400_000
  assert.ok(paced.takes(500).every((waitMs) => waitMs <= 10_000))
})
