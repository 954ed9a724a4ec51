import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SharedPlaces } from './shared-places.ts'

test('the newest holder of the largest share gives way to whoever has two less, and nobody else does', () => {
  const places = new SharedPlaces<string>()
  for (const holder of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'b3']) places.add(holder.charAt(0), holder)
  const givesWay = (share: string): string | undefined => places.givingWayTo(share)
  assert.deepEqual(['a', 'b', 'c'].map(givesWay), [undefined, undefined, 'a4'])
  places.delete('a4')
  places.delete('a4')
  places.add('c', 'c1')
  // Two shares are as large as each other.
  assert.match(givesWay('c') ?? '', /^[ab]3$/)
  places.delete('a3')
  assert.equal(givesWay('d'), 'b3')
  for (const holder of ['b3', 'b2']) places.delete(holder)
  assert.deepEqual(['a', 'b', 'c', 'd'].map(givesWay), [undefined, undefined, undefined, 'a2'])
  for (const holder of ['a1', 'a2', 'b1', 'c1']) places.delete(holder)
  assert.deepEqual([places.of('a'), givesWay('d')], [0, undefined])
})

test('the largest share and its oldest holder are told', () => {
  const places = new SharedPlaces<string>()
  const told = (): unknown[] => [places.largest, places.oldestOf(places.largest ?? '')]
  assert.deepEqual(told(), [undefined, undefined])
  for (const holder of ['b1', 'a1', 'a2', 'a3']) places.add(holder.charAt(0), holder)
  assert.deepEqual(told(), ['a', 'a1'])
  places.delete('a1')
  assert.deepEqual(told(), ['a', 'a2'])
  places.delete('a2')
  places.add('b', 'b2')
  assert.deepEqual(told(), ['b', 'b1'])
})
