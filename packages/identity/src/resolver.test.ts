/** What is known of an identity, for how long, and what a purge does to it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { alice, bob, hourMs, startMs, World } from '../tests/resolver-world.ts'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import type { Identity, IdentityStore } from './index.ts'

test('an identity is read once and kept for a day', async () => {
  await using world = await World.start()
  assert.equal(world.resolver.peek(alice), undefined)
  const identity = await world.resolver.resolve(alice)
  assert.equal(identity.pdsHost, 'pds.example.com')
  assert.equal(identity.fetchedAt, startMs)
  world.nowMs += 19 * hourMs
  assert.equal(world.resolver.peek(alice), identity)
  assert.equal(await world.resolver.resolve(alice), identity)
  assert.deepEqual(world.plc.requests, [`/${alice}`])
  world.nowMs = startMs + 24 * hourMs
  assert.equal(world.resolver.peek(alice), undefined)
  assert.equal((await world.resolver.resolve(alice)).fetchedAt, world.nowMs)
})

test('an identity in use is read again before its day is over, and a failure of that does no harm', async () => {
  await using world = await World.start()
  const identity = await world.resolver.resolve(alice)
  world.nowMs += 21 * hourMs
  const { handler } = world.plc
  world.plc.handler = (_, response) => response.writeHead(500).end()
  assert.equal(world.resolver.peek(alice), identity)
  assert.equal(world.resolver.peek(alice), identity)
  await world.plc.requested(2)
  assert.equal((await world.refused(alice, { refreshAfter: world.nowMs })).reason, 'unavailable')
  assert.equal(world.resolver.peek(alice), identity)
  world.plc.handler = handler
  world.nowMs += 60_000
  assert.equal(world.resolver.peek(alice), identity)
  // Asking for a newer one joins the reading that the glance began.
  const newer = await world.resolver.resolve(alice, { refreshAfter: world.nowMs })
  assert.equal(world.resolver.peek(alice), newer)
  assert.equal(world.plc.requests.length, 3)
})

test('look-ups of one DID at the same time share a request, those of others do not wait for it', async () => {
  await using world = await World.start()
  const release = world.hold()
  const both = Promise.all([world.resolver.resolve(alice), world.resolver.resolve(alice)])
  await world.plc.requested(1)
  const other = world.resolver.resolve(bob)
  await world.plc.requested(2)
  release(1)
  assert.equal((await other).did, bob)
  release(0)
  const [first, second] = await both
  assert.equal(first, second)
  assert.equal(world.plc.requests.length, 2)
})

test('a document that was asked for before the moment in question is read again', async () => {
  await using world = await World.start()
  const release = world.hold()
  const early = world.resolver.resolve(alice)
  await world.plc.requested(1)
  world.nowMs += 1000
  const late = world.resolver.resolve(alice, { refreshAfter: world.nowMs })
  const latest = world.resolver.resolve(alice, { refreshAfter: world.nowMs })
  world.nowMs += 1000
  release(0)
  assert.equal((await early).fetchedAt, startMs)
  await world.plc.requested(2)
  release(1)
  assert.equal((await late).fetchedAt, startMs + 2000)
  assert.equal(await latest, await late)
  assert.equal(world.plc.requests.length, 2)
})

test('a purge outdates what is known and what is being read', async () => {
  await using world = await World.start()
  world.resolver.purge(alice)
  const identity = await world.resolver.resolve(alice)
  world.resolver.purge(alice)
  assert.equal(world.resolver.peek(alice), undefined)
  const release = world.hold()
  const before = world.resolver.resolve(alice)
  await world.plc.requested(2)
  world.resolver.purge(alice)
  const after = world.resolver.resolve(alice)
  release(0)
  assert.notEqual(await before, identity)
  assert.equal(world.resolver.peek(alice), undefined)
  await world.plc.requested(3)
  release(1)
  const current = await after
  assert.equal(world.resolver.peek(alice), current)
})

test('a purge leaves a reading that began at its moment or later as it is', async () => {
  await using world = await World.start()
  const identity = await world.resolver.resolve(alice)
  world.resolver.purge(alice, { sinceMs: startMs })
  assert.equal(world.resolver.peek(alice), identity)
  world.resolver.purge(alice, { sinceMs: startMs + 1 })
  assert.equal(world.resolver.peek(alice), undefined)

  world.nowMs += 1000
  const release = world.hold()
  const reading = world.resolver.resolve(alice)
  await world.plc.requested(2)
  world.resolver.purge(alice, { sinceMs: startMs + 1000 })
  release(0)
  const read = await reading
  assert.equal(world.resolver.peek(alice), read)
})

test('made-up DIDs push no identity out, and are not asked for again after a purge at will', async () => {
  await using world = await World.start({ cacheMax: 2, plcPerSecond: 1e6 })
  await world.resolver.resolve(alice)
  for (let n = 0; n < 20; n++) await world.refused(sampleDid(100 + n))
  assert.ok(world.resolver.peek(alice))
  world.nowMs += 60_000
  const before = world.plc.requests.length
  for (let n = 0; n < 10; n++) {
    world.resolver.purge(sampleDid(100))
    await world.refused(sampleDid(100))
  }
  assert.equal(world.plc.requests.length - before, 3)
})

test('an identity of a time to come is read again: the clock was set back', async () => {
  await using world = await World.start()
  await world.resolver.resolve(alice)
  await world.refused(sampleDid(3))
  world.nowMs -= hourMs
  assert.equal(world.resolver.peek(alice), undefined)
  assert.equal((await world.resolver.resolve(alice)).fetchedAt, world.nowMs)
  await world.refused(sampleDid(3))
  assert.equal(world.plc.requests.length, 4)
})

test('a failure does not stand until a clock that was ahead when it was noted is there again', async () => {
  await using world = await World.start()
  const did = sampleDid(3)
  const release = world.hold()
  const reading = world.refused(did)
  await world.plc.requested(1)
  world.nowMs += hourMs
  release(0)
  await reading
  world.nowMs -= hourMs - 1
  world.plc.handler = (_, response) => response.end(JSON.stringify(sampleDocument(did)))
  assert.equal((await world.resolver.resolve(did)).did, did)
})

test('only so many identities are kept, those in use among them', async () => {
  await using world = await World.start({ cacheMax: 4 })
  const dids = Array.from({ length: 8 }, (_, n) => sampleDid(100 + n))
  world.plc.serve(Object.fromEntries(dids.map((did) => [`/${did}`, sampleDocument(did)])))
  const [first] = dids
  assert.ok(first)
  for (const did of dids) {
    await world.resolver.resolve(did)
    assert.ok(world.resolver.peek(first))
  }
  assert.ok(dids.filter((did) => world.resolver.peek(did)).length <= 4)
})

test('who runs the resolver can count what it does', async () => {
  const peeks = { found: 0, missed: 0 }
  const reads: string[] = []
  await using world = await World.start({
    peeks,
    onRead: ({ outcome, tookMs, isRefresh }) => {
      assert.ok(tookMs >= 0)
      reads.push(`${outcome}${isRefresh ? ' again' : ''}`)
    },
  })
  const { resolver } = world
  resolver.peek(alice)
  await resolver.resolve(alice)
  resolver.peek(alice)
  await resolver.resolve(alice)
  resolver.purge(alice)
  await resolver.resolve(alice)
  await world.refused(sampleDid(3))
  assert.deepEqual(peeks, { found: 1, missed: 1 })
  assert.deepEqual(reads, ['found', 'found again', 'not-found'])
})

/** Identities that outlive the process. */
function newStore(): { kept: Map<Did, Identity>; store: IdentityStore } {
  const kept = new Map<Did, Identity>()
  const set: IdentityStore['set'] = (did, identity) =>
    void (identity ? kept.set(did, identity) : kept.delete(did))
  return { kept, store: { get: (did) => kept.get(did), set } }
}

test('what is purged while it is read is not there after a start', async () => {
  const { kept, store } = newStore()
  await using world = await World.start({ store })
  const release = world.hold()
  const reading = world.resolver.resolve(alice)
  await world.plc.requested(1)
  world.resolver.purge(alice)
  release(0)
  assert.equal((await reading).did, alice)
  assert.equal(kept.size, 0)
})

test('what was read before a start is good after it, and what was purged is not', async () => {
  const { kept, store } = newStore()
  {
    await using world = await World.start({ store })
    await world.resolver.resolve(alice)
    await world.resolver.resolve(bob)
    world.resolver.purge(bob)
  }
  await using world = await World.start({ store })
  world.nowMs = startMs + 23 * hourMs
  assert.equal(world.resolver.peek(alice)?.did, alice)
  assert.equal(world.resolver.peek(bob), undefined)
  assert.equal((await world.resolver.resolve(alice)).fetchedAt, startMs)

  await using later = await World.start({ store })
  later.nowMs = startMs + 24 * hourMs
  assert.equal(later.resolver.peek(alice), undefined)
  later.plc.serve({})
  await later.refused(alice)
  assert.equal(kept.size, 0)
})
