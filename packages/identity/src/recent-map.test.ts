import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RecentMap } from './recent-map.ts'

test('what is used stays, what is not goes first, and what is deleted does not come back', () => {
  const map = new RecentMap<number, string>(4)
  for (let key = 0; key < 20; key++) {
    map.set(key, `value ${key}`)
    assert.equal(map.get(0), 'value 0', `after ${key}`)
  }
  const kept = Array.from({ length: 20 }, (_, key) => key).filter((key) => map.get(key) !== undefined)
  assert.ok(kept.length <= 4, kept.join())
  for (const key of [0, 19]) {
    map.delete(key)
    assert.equal(map.get(key), undefined)
  }
})
