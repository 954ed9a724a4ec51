/** How often the directory and hosts are asked, and what a cause may have read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { alice, bob, hourMs, startMs, startSlow, World } from '../tests/resolver-world.ts'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import { type Identity, IdentityError } from './index.ts'

test('first contact reads each document once, however many accounts one host announces', async () => {
  await using world = await World.start({ plcPerSecond: 1e6 })
  world.plc.handler = (path, response) => response.end(JSON.stringify(sampleDocument(path.slice(1))))
  const dids = Array.from({ length: 200 }, (_, n) => sampleDid(100 + n))
  // An #identity of each arrives, and is followed by a look that counts only if it began after that.
  const contact = async (did: Did): Promise<Identity> => {
    const sinceMs = world.nowMs
    await world.resolver.resolve(did, { onBehalfOf: 'pds.example.com' })
    world.resolver.purge(did, { sinceMs })
    return await world.resolver.resolve(did, { refreshAfter: sinceMs, onBehalfOf: 'pds.example.com' })
  }
  await Promise.all(dids.map(contact))
  assert.deepEqual(world.plc.requests.toSorted(), dids.map((did) => `/${did}`).toSorted())
  // The whole allowance of the host is left.
  world.nowMs += 60_000
  for (const did of dids.slice(0, 50)) {
    await world.resolver.resolve(did, { refreshAfter: world.nowMs, onBehalfOf: 'pds.example.com' })
  }
  const options = { refreshAfter: world.nowMs, onBehalfOf: 'pds.example.com' }
  assert.equal((await world.refused(sampleDid(299), options)).retryAfterMs, 100)
})

test('two more looks in the minute after first contact are free, the third counts for the host', async () => {
  await using world = await World.start({ plcPerSecond: 1e6 })
  world.plc.handler = (path, response) => response.end(JSON.stringify(sampleDocument(path.slice(1))))
  const dids = Array.from({ length: 51 }, (_, n) => sampleDid(100 + n))
  const lookAgain = async (did: Did): Promise<Identity> => {
    world.resolver.purge(did)
    return await world.resolver.resolve(did)
  }
  await Promise.all(dids.map((did) => world.resolver.resolve(did)))
  for (let look = 0; look < 2; look++) await Promise.all(dids.map(lookAgain))
  const outcomes = await Promise.allSettled(dids.map(lookAgain))
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1)
})

test('a DID that does not exist is not asked for again for ten minutes', async () => {
  await using world = await World.start()
  const nobody = sampleDid(3)
  for (const status of [404, 410]) {
    world.plc.handler = (_, response) => response.writeHead(status).end()
    const error = await world.refused(nobody)
    assert.deepEqual([error.reason, error.retryable, error.retryAfterMs], ['not-found', false, 600_000])
    world.nowMs += 599_999
    assert.equal((await world.refused(nobody)).retryAfterMs, 1)
    world.nowMs += 1
  }
  assert.equal(world.plc.requests.length, 2)
  world.plc.serve({ [`/${nobody}`]: sampleDocument(nobody) })
  assert.equal((await world.resolver.resolve(nobody)).did, nobody)
  world.resolver.purge(nobody)
})

test('that a DID does not exist does not stand against the need for a newer look, nor a purge', async () => {
  await using world = await World.start()
  const nobody = sampleDid(3)
  await world.refused(nobody)
  world.plc.serve({ [`/${nobody}`]: sampleDocument(nobody) })
  world.nowMs += 1
  assert.equal((await world.resolver.resolve(nobody, { refreshAfter: world.nowMs })).did, nobody)
  const other = sampleDid(4)
  await world.refused(other)
  world.plc.serve({ [`/${other}`]: sampleDocument(other) })
  world.resolver.purge(other)
  assert.equal((await world.resolver.resolve(other)).did, other)
})

test('what the directory said before a purge does not stand after it, though it came later', async () => {
  await using world = await World.start()
  const nobody = sampleDid(3)
  const release = world.hold()
  const before = world.refused(nobody)
  await world.plc.requested(1)
  world.resolver.purge(nobody)
  release(0)
  assert.equal((await before).reason, 'not-found')
  world.plc.serve({ [`/${nobody}`]: sampleDocument(nobody) })
  assert.equal((await world.resolver.resolve(nobody)).did, nobody)
})

test('after a time without an answer the next look is 30 s away, then 60, then 120', async () => {
  await using world = await World.start()
  const waits = [30_000, 60_000, 120_000, 120_000]
  world.plc.handler = (_, response) => {
    world.nowMs += 1000
    response.destroy()
  }
  for (const waitMs of waits) {
    const error = await world.refused(alice)
    assert.deepEqual([error.reason, error.retryable, error.retryAfterMs], ['unavailable', true, waitMs])
    assert.equal((await world.refused(alice, { refreshAfter: world.nowMs })).retryAfterMs, waitMs)
    world.nowMs += waitMs
  }
  assert.equal(world.plc.requests.length, waits.length)
})

test('a directory that fails at once is asked again within 5 s, unless it asks for another time', async () => {
  await using world = await World.start()
  world.plc.handler = (_, response) => response.writeHead(502).end()
  for (let n = 0; n < 6; n++) {
    const { retryAfterMs = Infinity } = await world.refused(alice)
    assert.ok(retryAfterMs <= 5000, `${retryAfterMs}`)
    world.nowMs += retryAfterMs
  }
  assert.equal(world.plc.requests.length, 6)
  world.plc.handler = (_, response) => response.writeHead(429, { 'retry-after': '7' }).end()
  assert.equal((await world.refused(alice)).retryAfterMs, 7000)
  world.plc.handler = (_, response) => response.destroy()
  assert.equal((await world.refused(bob)).reason, 'unavailable')
})

test('documents that hang do not make the directory count as away', async () => {
  await using world = await World.start()
  world.plc.handler = (_, response) => {
    world.nowMs += 5000
    response.destroy()
  }
  for (let n = 0; n < 40; n++) await world.refused(sampleDid(100 + n))
  world.plc.serve({ [`/${alice}`]: sampleDocument(alice) })
  assert.equal((await world.resolver.resolve(alice)).did, alice)
})

test('a directory that is away is tried twice a second, and soon after it is back every DID is read', async () => {
  await using world = await World.start()
  const dids = Array.from({ length: 40 }, (_, n) => sampleDid(n + 1))
  const documents = Object.fromEntries(dids.map((did) => [`/${did}`, sampleDocument(did)]))
  world.plc.handler = (_, response) => response.writeHead(502).end()
  let seconds = 0
  for (const did of [...dids, ...dids, ...dids]) {
    const { retryAfterMs = Infinity } = await world.refused(did)
    assert.ok(retryAfterMs <= 5000, `${retryAfterMs}`)
    world.nowMs += 100
    seconds += 0.1
  }
  assert.ok(world.plc.requests.length <= 16 + 2 * seconds + 1, `${world.plc.requests.length} requests`)
  world.plc.serve(documents)
  world.nowMs += 5000
  for (const did of dids) assert.equal((await world.resolver.resolve(did)).did, did)
})

test('a few failures do not make the directory count as away, nor do answers that there is no such DID', async () => {
  await using world = await World.start()
  for (let n = 0; n < 40; n++) await world.refused(sampleDid(100 + n))
  for (let round = 0; round < 4; round++) {
    world.plc.handler = (_, response) => response.writeHead(502).end()
    for (let n = 0; n < 12; n++) await world.refused(sampleDid(200 + round * 20 + n))
    world.plc.serve({})
    await world.refused(sampleDid(300 + round))
  }
  assert.equal(world.plc.requests.length, 40 + 4 * 13)
})

test('a directory that fails for one DID again and again is asked for the others', async () => {
  await using world = await World.start()
  const { handler } = world.plc
  world.plc.handler = (path, response, request) =>
    path === `/${alice}` ? response.writeHead(502).end() : handler(path, response, request)
  for (let n = 0; n < 40; n++) {
    const { retryAfterMs = Infinity } = await world.refused(alice)
    world.nowMs += retryAfterMs
  }
  await world.refused(alice)
  assert.equal((await world.resolver.resolve(bob)).did, bob)
})

test('an account is read again on request three times at once and then every 30 s, and the request says when', async () => {
  await using world = await World.start()
  await world.resolver.resolve(alice)
  world.nowMs += 60_000
  const refresh = () => world.resolver.resolve(alice, { refreshAfter: world.nowMs })
  for (let i = 0; i < 3; i++) {
    world.nowMs += 1000
    assert.equal((await refresh()).fetchedAt, world.nowMs)
  }
  const refreshed = await world.resolver.resolve(alice)
  world.nowMs += 1000
  const error = await world.refused(alice, { refreshAfter: world.nowMs })
  assert.deepEqual([error.retryable, error.retryAfterMs], [true, 27_000])
  // Nobody gets the older one in place of the one that was asked for, and everybody else still has it.
  assert.equal(await world.resolver.resolve(alice), refreshed)
  world.nowMs += 27_000
  assert.equal((await refresh()).fetchedAt, world.nowMs)
  world.nowMs += 1000
  assert.equal((await world.refused(alice, { refreshAfter: world.nowMs })).retryAfterMs, 29_000)
  // A look that failed was none: what counts after it is the pause after a failure.
  world.nowMs += 31_000
  const { handler } = world.plc
  world.plc.handler = (_, response) => response.writeHead(503, { 'retry-after': '2' }).end()
  assert.equal((await world.refused(alice, { refreshAfter: world.nowMs })).retryAfterMs, 2000)
  world.plc.handler = handler
  world.nowMs += 2000
  assert.equal((await refresh()).fetchedAt, world.nowMs)
})

test('a host that speaks of an account of another one does not keep that one from having it read again', async () => {
  await using world = await World.start()
  await world.resolver.resolve(alice, { onBehalfOf: 'home.example.com' })
  world.nowMs += 60_000
  const look = (host: string) => ({ refreshAfter: world.nowMs, onBehalfOf: host })
  for (let i = 0; i < 3; i++) {
    world.nowMs += 1000
    await world.resolver.resolve(alice, look('hostile.example.com'))
  }
  world.nowMs += 1000
  assert.equal((await world.refused(alice, look('hostile.example.com'))).retryAfterMs, 27_000)
  assert.equal((await world.resolver.resolve(alice, look('home.example.com'))).fetchedAt, world.nowMs)
  // What was read for one is there for all.
  await world.resolver.resolve(alice, look('hostile.example.com'))
})

test('one host can have 50 accounts read again at once and then 10 a second, others are not held up', async () => {
  await using world = await World.start()
  const dids = Array.from({ length: 60 }, (_, n) => sampleDid(100 + n))
  world.plc.serve(Object.fromEntries(dids.map((did) => [`/${did}`, sampleDocument(did)])))
  await Promise.all(dids.map((did) => world.resolver.resolve(did)))
  world.nowMs += 60_000
  const refresh = (did: Did, host?: string) =>
    world.resolver.resolve(did, { refreshAfter: world.nowMs, ...(host ? { onBehalfOf: host } : {}) })
  const outcomes = await Promise.allSettled(dids.map((did) => refresh(did)))
  const refused = outcomes.filter(({ status }) => status === 'rejected').length
  assert.equal(refused, 10)
  const last = dids.at(-1) ?? alice
  // Each is told a moment of its own.
  assert.equal((await world.refused(last, { refreshAfter: world.nowMs })).retryAfterMs, 1100)
  assert.equal((await refresh(last, 'another.example.com')).fetchedAt, world.nowMs)
  // A purge makes a new look necessary too, so it counts.
  const [first] = dids
  assert.ok(first)
  world.resolver.purge(first)
  assert.equal((await world.refused(first)).retryAfterMs, 1200)
  world.nowMs += 100
  assert.equal((await world.resolver.resolve(first)).fetchedAt, world.nowMs)
})

test('a new look that a purge makes necessary counts for the host of the account, whoever reads first', async () => {
  await using world = await World.start()
  const dids = Array.from({ length: 51 }, (_, n) => sampleDid(100 + n))
  world.plc.serve(Object.fromEntries(dids.map((did) => [`/${did}`, sampleDocument(did)])))
  const read = (did: Did, host: string) => world.resolver.resolve(did, { onBehalfOf: host })
  await Promise.all(dids.map((did) => read(did, 'relay.example.com')))
  world.nowMs += 60_000
  for (const did of dids) world.resolver.purge(did)
  const outcomes = await Promise.allSettled(dids.map((did) => read(did, `${did.slice(-2)}.example.com`)))
  assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1)
})

test('requests to the PLC directory are bounded, and a reading that waits for too long is given up', async () => {
  await using world = await startSlow(2)
  const dids = Array.from({ length: 13 }, (_, n) => sampleDid(100 + n))
  const outcomes = await Promise.allSettled(dids.map((did) => world.resolver.resolve(did)))
  const found = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const sentMs = found.map(({ fetchedAt }) => fetchedAt - startMs)
  assert.deepEqual(sentMs, [0, 0, 500, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 4500])
  const refused = outcomes.flatMap((outcome): unknown[] =>
    outcome.status === 'rejected' ? [outcome.reason] : [],
  )
  for (const error of refused) assert.ok(error instanceof IdentityError && error.isOwnLimit)
  // It says nothing of the DID.
  assert.equal((await world.resolver.resolve(sampleDid(112))).did, sampleDid(112))
})

test('hosts take turns: one that names thousands of accounts delays another by one turn', async () => {
  await using world = await startSlow(100)
  const hostile = Array.from({ length: 3000 }, (_, n) => sampleDid(1000 + n))
  const flood = hostile.map((did) => world.resolver.resolve(did, { onBehalfOf: 'hostile.com' }))
  const outcomes = Promise.allSettled(flood)
  const identity = await world.resolver.resolve(alice, { onBehalfOf: 'good.com' })
  assert.ok(identity.fetchedAt - startMs <= 30, `${identity.fetchedAt - startMs} ms`)
  // An account that the other host named first, and that waits in its queue, is not held up either.
  const last = hostile[1500] ?? alice
  const sinceMs = world.nowMs
  const joined = await world.resolver.resolve(last, { onBehalfOf: 'good.com' })
  assert.ok(joined.fetchedAt - sinceMs <= 40, `${joined.fetchedAt - sinceMs} ms`)
  const refused = (await outcomes).flatMap((outcome): unknown[] =>
    outcome.status === 'rejected' ? [outcome.reason] : [],
  )
  const waits = refused.map((error) =>
    error instanceof IdentityError && error.isOwnLimit ? error.retryAfterMs : 0,
  )
  assert.ok(refused.length >= 900)
  assert.ok(waits.every((ms = 0) => ms >= 1000 && ms <= 60_000))
  // Nearly all are told different moments, so that they do not come back together.
  assert.ok(new Set(waits).size > 800)
})

test('documents that are read ahead delay a host by one turn, whatever hosts they name', async () => {
  await using world = await startSlow(100)
  world.plc.handler = (path, response) => {
    const serviceEndpoint = `https://${path.slice(-4)}.example.com`
    const service = [{ id: '#atproto_pds', type: 'AtprotoPersonalDataServer', serviceEndpoint }]
    response.end(JSON.stringify(sampleDocument(path.slice(1), { service })))
  }
  const dids = Array.from({ length: 200 }, (_, n) => sampleDid(1000 + n))
  for (const did of dids) await world.resolver.resolve(did, { onBehalfOf: 'hostile.com' })
  world.nowMs += 21 * hourMs
  for (const did of dids) world.resolver.peek(did)
  const sinceMs = world.nowMs
  const identity = await world.resolver.resolve(alice, { onBehalfOf: 'good.com' })
  assert.ok(identity.fetchedAt - sinceMs <= 100, `${identity.fetchedAt - sinceMs} ms`)
  await world.plc.requested(2 * dids.length + 1)
})

test('looks that cannot begin because too much is waited for are not counted', async () => {
  await using world = await startSlow(100)
  await world.resolver.resolve(alice)
  world.nowMs += 60_000
  const flood = Array.from({ length: 3000 }, (_, n) =>
    world.resolver.resolve(sampleDid(1000 + n), { onBehalfOf: 'crowded.com' }),
  )
  const settled = Promise.allSettled(flood)
  for (let look = 0; look < 5; look++)
    assert.ok(
      (await world.refused(alice, { refreshAfter: world.nowMs, onBehalfOf: 'crowded.com' })).isOwnLimit,
    )
  await settled
  const { nowMs } = world
  assert.ok((await world.resolver.resolve(alice, { refreshAfter: nowMs })).fetchedAt >= nowMs)
})

test('a reading that waits for its turn shows all that is known when it is sent', async () => {
  let onWait = (): void => {}
  await using world = await startSlow(1, () => onWait())
  await world.resolver.resolve(bob)
  onWait = () => world.resolver.purge(alice, { sinceMs: world.nowMs })
  const identity = await world.resolver.resolve(alice)
  assert.equal(world.resolver.peek(alice), identity)
  assert.equal(world.plc.requests.length, 2)
})

test('a clock that was ahead does not keep a document from being read again', async () => {
  await using world = await World.start({ plcPerSecond: 1e6 })
  world.plc.handler = (path, response) => response.end(JSON.stringify(sampleDocument(path.slice(1))))
  const did = sampleDid(100)
  const look = async (): Promise<Identity> =>
    await world.resolver.resolve(did, { refreshAfter: world.nowMs, onBehalfOf: 'pds.example.com' })
  await look()
  world.nowMs += 86_400_000
  for (let n = 0; n < 4; n++) {
    world.nowMs += 1
    await look()
  }
  world.nowMs += 1
  await world.refused(did, { refreshAfter: world.nowMs, onBehalfOf: 'pds.example.com' })
  world.nowMs -= 43_200_000
  await look()
  world.nowMs += 1
  await look()
})
