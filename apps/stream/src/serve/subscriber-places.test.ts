import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PlaceLimits, SubscriberPlaces } from './subscriber-places.ts'

const newPlaces = (limits: PlaceLimits): SubscriberPlaces =>
  new SubscriberPlaces(limits, { hasRoomFor: () => false, makeRoomFor: () => assert.fail() })

test('what a subscriber took up, itself and the DIDs of its filter, is free when it left', () => {
  const places = newPlaces({
    subscribersMax: 2,
    subscribersPerAddressMax: 1,
    didsMax: 150,
    didsPerAddressMax: 100,
  })
  const many = { address: '192.0.2.1', dids: 100 }
  for (let i = 0; i < 3; i++) {
    places.check(many)
    places.take(many)
    assert.throws(() => places.check({ address: many.address, dids: 0 }), { status: 429 })
    assert.throws(() => places.check({ address: '192.0.2.2', dids: 51 }), { status: 503 })
    places.leave(many)
  }
  assert.throws(() => places.check({ address: many.address, dids: 101 }), { status: 429 })
})

test('a place is exchanged for another, or kept when there is none', () => {
  const places = newPlaces({
    subscribersMax: 1,
    subscribersPerAddressMax: 1,
    didsMax: 100,
    didsPerAddressMax: 100,
  })
  const [address, other] = ['192.0.2.1', '192.0.2.2']
  places.take({ address, dids: 60 })
  assert.throws(() => places.exchange({ address, dids: 60 }, { address, dids: 101 }), { status: 503 })
  assert.throws(() => places.check({ address: other, dids: 0 }), { status: 503 })
  places.exchange({ address, dids: 60 }, { address, dids: 100 })
  places.exchange({ address, dids: 100 }, { address, dids: 1 })
  places.leave({ address, dids: 1 })
  places.check({ address, dids: 100 })
})
