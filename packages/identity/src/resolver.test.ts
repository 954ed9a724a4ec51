/** In one piece because all tests share one directory and one clock. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import { WebServer } from '../tests/web-server.ts'
import {
  createResolver,
  FetchError,
  type Identity,
  IdentityError,
  type IdentityResolver,
  type IdentityStore,
  type ResolverOptions,
} from './index.ts'

const startMs = 1_800_000_000_000
const hourMs = 3_600_000
const alice = sampleDid(1)
const bob = sampleDid(2)

/** A PLC directory that knows two accounts, a resolver that asks it, and the time. */
class World implements AsyncDisposable {
  readonly plc: WebServer
  readonly resolver: IdentityResolver
  nowMs = startMs

  private constructor(plc: WebServer, options: Partial<ResolverOptions>) {
    this.plc = plc
    plc.serve({ [`/${alice}`]: sampleDocument(alice), [`/${bob}`]: sampleDocument(bob) })
    this.resolver = createResolver({
      plcUrl: plc.url,
      allowedPrivateHosts: [],
      nowMs: () => this.nowMs,
      ...options,
    })
  }

  static async start(options: Partial<ResolverOptions> = {}): Promise<World> {
    return new World(await WebServer.start(), options)
  }

  /** Holds back answers; the returned function gives the one to the nth request so far. */
  hold(): (n: number) => void {
    const held: [string, ServerResponse][] = []
    const { handler } = this.plc
    this.plc.handler = (path, response) => void held.push([path, response])
    return (n) => {
      const [path, response] = held[n] ?? assert.fail('no such request')
      handler(path, response, response.req)
    }
  }

  async refused(did: Did, options?: { refreshAfter?: number; onBehalfOf?: string }): Promise<IdentityError> {
    try {
      await this.resolver.resolve(did, options)
    } catch (error) {
      assert.ok(error instanceof IdentityError)
      return error
    }
    return assert.fail('it was resolved')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plc[Symbol.asyncDispose]()
  }
}

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

test('what is published must be JSON and the document of this DID', async () => {
  await using world = await World.start()
  world.plc.serve({ [`/${alice}`]: sampleDocument(bob) })
  assert.equal((await world.refused(alice)).reason, 'invalid')
  world.plc.handler = (_, response) => response.end('{')
  assert.equal((await world.refused(bob)).reason, 'invalid')
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

/** Serves any document, to a resolver whose clock moves only while it waits for turns. */
async function startSlow(perSecond: number, onWait: () => void = () => {}): Promise<World> {
  const world: World = await World.start({
    plcPerSecond: perSecond,
    delay: async (ms) => {
      await nextTurn()
      onWait()
      world.nowMs += ms
    },
  })
  world.plc.handler = (path, response) => response.end(JSON.stringify(sampleDocument(path.slice(1))))
  return world
}

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
  assert.ok(identity.fetchedAt - startMs <= 20, `${identity.fetchedAt - startMs} ms`)
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

test('a directory whose own name is unknown says nothing of a DID, the unknown host of a did:web does', async () => {
  const cause = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  await using world = await World.start({
    fetch: () => Promise.reject(new FetchError('no answer', { cause })),
  })
  assert.equal((await world.refused(alice)).reason, 'unavailable')
  assert.equal((await world.refused('did:web:gone.example.com' as Did)).reason, 'not-found') // a DID as it stands
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

test('only a number of seconds is taken from retry-after, and not too few or too many', async () => {
  await using world = await World.start()
  const cases = { '0': 1000, '7': 7000, '99999999999999999999': 120_000 }
  const texts = ['1e9', '-5', '0.0001', 'Infinity', 'NaN', '', 'soon']
  const answer = async (n: number, text: string): Promise<number> => {
    world.plc.handler = (_, response) => response.writeHead(503, { 'retry-after': text }).end()
    return (await world.refused(sampleDid(100 + n))).retryAfterMs ?? Infinity
  }
  for (const [n, [text, waitMs]] of Object.entries(cases).entries())
    assert.equal(await answer(n, text), waitMs)
  for (const [n, text] of texts.entries()) {
    const waitMs = await answer(10 + n, text)
    assert.ok(waitMs >= 500 && waitMs <= 5000, `${text}: ${waitMs}`)
  }
})

test('a document of more than 32 kB is not read, and what it names is kept only if it is short', async () => {
  await using world = await World.start()
  const padding = 'x'.repeat(32_768)
  const endpoint = { id: '#atproto_pds', serviceEndpoint: `https://${'a.'.repeat(200)}com` }
  world.plc.serve({
    [`/${alice}`]: sampleDocument(alice, { padding }),
    [`/${bob}`]: sampleDocument(bob, { service: [endpoint] }),
  })
  assert.equal((await world.refused(alice)).reason, 'unavailable')
  assert.equal((await world.resolver.resolve(bob)).pdsHost, undefined)
})

test('a key that was rotated out is not used after a refresh, nor that of a DID that is gone', async () => {
  await using world = await World.start()
  const { signingKey } = await world.resolver.resolve(alice)
  assert.ok(signingKey)
  world.plc.serve({ [`/${alice}`]: sampleDocument(alice, { verificationMethod: [] }) })
  world.nowMs += 1
  const refreshed = await world.resolver.resolve(alice, { refreshAfter: world.nowMs })
  assert.equal(refreshed.signingKey, undefined)
  assert.equal(world.resolver.peek(alice), refreshed)
  world.plc.serve({})
  for (const status of [404, 410]) {
    world.plc.serve({ [`/${alice}`]: sampleDocument(alice) })
    world.nowMs += 600_000
    assert.ok((await world.resolver.resolve(alice, { refreshAfter: world.nowMs })).signingKey)
    world.plc.handler = (_, response) => response.writeHead(status).end()
    world.nowMs += 600_000
    const error = await world.refused(alice, { refreshAfter: world.nowMs })
    assert.equal(error.reason, 'not-found')
    assert.equal(world.resolver.peek(alice), undefined)
    assert.equal((await world.refused(alice)).reason, 'not-found')
  }
})

test('only DIDs of the two methods are asked for, and never a private host', async () => {
  await using world = await World.start()
  const dids = [
    'did:plc:abc',
    'did:plc:ABCDEFGHIJKLMNOPQRSTUVWX',
    `${alice}a`,
    'did:plc:%2e%2e%2fexport',
    'did:key:zQ3sh',
    'did:web:localhost',
    `did:web:localhost%3A${world.plc.port}`,
    'did:web:127.0.0.1',
    'did:web:example.com:path',
    'did:web:example.com%2Fpath',
    'did:web:example.com%3A8443',
    'did:web:x.internal',
    'did:web:%zz',
    'did:web:',
    'did:web:example.com%3A',
    'x',
  ]
  for (const did of dids) assert.equal((await world.refused(did as Did)).reason, 'invalid', did) // deliberately not all DIDs
  assert.deepEqual(world.plc.requests, [])
})

test('a did:web is read from its host, through redirects', async () => {
  await using web = await WebServer.start()
  await using world = await World.start({ allowedPrivateHosts: [web.host] })
  const did = `did:web:localhost%3A${web.port}` as Did // a DID as it stands
  web.serve({ '/.well-known/did.json': sampleDocument(did) })
  assert.equal((await world.resolver.resolve(did)).did, did)
  const { handler } = web
  web.handler = (path, response, request) =>
    path === '/elsewhere'
      ? handler('/.well-known/did.json', response, request)
      : response.writeHead(301, { location: '/elsewhere' }).end()
  world.resolver.purge(did)
  assert.equal((await world.resolver.resolve(did)).did, did)
  assert.deepEqual(world.plc.requests, [])
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
