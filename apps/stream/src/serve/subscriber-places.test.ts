import assert from 'node:assert/strict'
import { test } from 'node:test'
import { filterBytes, type PlaceLimits, SubscriberPlaces } from './subscriber-places.ts'

const newPlaces = (limits: PlaceLimits): SubscriberPlaces =>
  new SubscriberPlaces(limits, { hasRoomFor: () => false, makeRoomFor: () => assert.fail() })

test('what a subscriber took up, itself and its filter, is free when it left', () => {
  const places = newPlaces({
    subscribersMax: 2,
    subscribersPerAddressMax: 1,
    filterBytesMax: 150,
    filterBytesPerAddressMax: 100,
  })
  const many = { address: '192.0.2.1', filterBytes: 100 }
  for (let i = 0; i < 3; i++) {
    places.check(many)
    places.take(many)
    assert.throws(() => places.check({ address: many.address, filterBytes: 0 }), { status: 429 })
    assert.throws(() => places.check({ address: '192.0.2.2', filterBytes: 51 }), { status: 503 })
    places.leave(many)
  }
  assert.throws(() => places.check({ address: many.address, filterBytes: 101 }), { status: 429 })
})

test('a place is exchanged for another, or kept when there is none', () => {
  const places = newPlaces({
    subscribersMax: 1,
    subscribersPerAddressMax: 1,
    filterBytesMax: 100,
    filterBytesPerAddressMax: 100,
  })
  const [address, other] = ['192.0.2.1', '192.0.2.2']
  const taking = (bytes: number) => ({ address, filterBytes: bytes })
  places.take(taking(60))
  assert.throws(() => places.exchange(taking(60), taking(101)), { status: 503 })
  assert.throws(() => places.check({ address: other, filterBytes: 0 }), { status: 503 })
  places.exchange(taking(60), taking(100))
  places.exchange(taking(100), taking(1))
  places.leave(taking(1))
  places.check(taking(100))
})

test('a filter counts by the bytes of all its texts, and small ones always have room', () => {
  const texts = (count: number, length: number): string[] => Array(count).fill('x'.repeat(length))
  const plc = (count: number): string[] => texts(count, 'did:plc:'.length + 24)
  assert.equal(filterBytes({}), 0)
  assert.equal(filterBytes({ dids: plc(30) }), 0)
  assert.equal(filterBytes({ collections: texts(6, 30) }), 0)
  assert.equal(filterBytes({ dids: plc(10_000) }), 997_000)
  assert.equal(filterBytes({ dids: texts(480, 2048), collections: texts(100, 319) }), 1_116_480)
  // Full of DIDs, as the documents promise, an address and all together have room.
  assert.ok(20 * filterBytes({ dids: plc(10_000) }) < 32 * 1024 * 1024)
  assert.ok(500 * filterBytes({ dids: plc(10_000), collections: texts(50, 30) }) < 512 * 1024 * 1024)
})
