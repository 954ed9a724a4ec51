import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FilterCache } from './filter-cache.ts'

test('what is kept stays within the bound, and what plans ask first takes the room of the rest', async () => {
  const cache = new FilterCache(100)
  const keys = { a: {}, b: {}, c: {}, d: {}, e: {} }
  type Name = keyof typeof keys
  const loaded: string[] = []
  const get = async (name: Name, bytes: number, rank: 'first' | 'lesser'): Promise<void> => {
    const value = await cache.get(keys[name], { bytes, rank }, async () => {
      loaded.push(name)
      return name
    })
    assert.equal(value, name)
  }
  await get('a', 50, 'lesser')
  await get('b', 40, 'lesser')
  await get('c', 30, 'lesser') // has no room
  await get('a', 50, 'lesser')
  await get('b', 40, 'lesser')
  await get('c', 30, 'lesser')
  assert.equal(loaded.splice(0).join(''), 'abcc')
  await get('d', 60, 'first') // takes the room of a
  await get('b', 40, 'lesser')
  await get('d', 60, 'first')
  await get('a', 50, 'lesser')
  assert.equal(loaded.splice(0).join(''), 'da')
  await get('e', 101, 'first') // takes nothing, because it fits nowhere
  await get('b', 40, 'lesser')
  await get('d', 60, 'first')
  assert.equal(loaded.splice(0).join(''), 'e')
  cache.delete(keys.d)
  await get('a', 50, 'lesser')
  await get('a', 50, 'lesser')
  assert.equal(loaded.splice(0).join(''), 'a')
})
