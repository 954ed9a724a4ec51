import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostPace } from './host-pace.ts'

test('a host is asked no more often than the pace allows, whatever other hosts are asked', () => {
  let now = 1_000_000
  const pace = new HostPace(1000, () => now)
  assert.deepEqual([pace.take('a'), pace.take('a'), pace.take('b'), pace.take('a')], [0, 1000, 0, 2000])
  now += 2500
  assert.deepEqual([pace.take('a'), pace.take('b')], [500, 0])
})

test('a host that wants to be left alone is left alone for that long', () => {
  let now = 1_000_000
  const pace = new HostPace(1000, () => now)
  pace.leaveAlone('a', 30_000)
  pace.leaveAlone('a', 10)
  now += 10_000
  assert.deepEqual([pace.take('a'), pace.take('b')], [20_000, 0])
})
