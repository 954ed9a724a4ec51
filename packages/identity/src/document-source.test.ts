import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import { NameServer } from '../tests/name-server.ts'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import { WebServer } from '../tests/web-server.ts'
import { createResolver, type Identity, IdentityError, type IdentityResolver } from './index.ts'

const alice = sampleDid(1)
/** Hosts that together want more than may be under way. */
const causes = ['a.com', 'b.com', 'c.com', 'd.com']

/** A PLC directory and the host of one `did:web` that answer, and any number of `did:web` that never do. */
class World implements AsyncDisposable {
  readonly web: WebServer
  readonly resolver: IdentityResolver
  readonly did: Did
  readonly #names: NameServer
  readonly #plc: WebServer
  readonly #hanging: Promise<unknown>[] = []

  private constructor(names: NameServer, plc: WebServer, web: WebServer) {
    this.#names = names
    this.#plc = plc
    this.web = web
    this.did = `did:web:localhost%3A${web.port}` as Did // a DID as it stands
    plc.serve({ [`/${alice}`]: sampleDocument(alice) })
    web.serve({ '/.well-known/did.json': sampleDocument(this.did) })
    this.resolver = createResolver({
      plcUrl: plc.url,
      allowedPrivateHosts: [web.host],
      nameServers: names.addresses,
      webPerSecond: 10_000,
    })
  }

  static async start(): Promise<World> {
    const names = await NameServer.start(() => 'silence')
    return new World(names, await WebServer.start(), await WebServer.start())
  }

  /** Asks for so many that hang, all on behalf of one host or of nobody. */
  hang(count: number, onBehalfOf?: string): void {
    for (let n = 0; n < count; n++) {
      const did = `did:web:x${this.#hanging.length}.tarpit.com` as Did // a DID as it stands
      this.#hanging.push(this.read(did, onBehalfOf).catch(() => undefined))
    }
  }

  async read(did: Did, onBehalfOf?: string): Promise<Identity> {
    return await this.resolver.resolve(did, onBehalfOf === undefined ? {} : { onBehalfOf })
  }

  /** Ends all that hangs. */
  async answer(): Promise<void> {
    this.#names.endSilence()
    await Promise.all(this.#hanging)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.answer()
    await this.#names[Symbol.asyncDispose]()
    await this.#plc[Symbol.asyncDispose]()
    await this.web[Symbol.asyncDispose]()
  }
}

test('accounts whose hosts never answer hold nobody up, however many sources name them', async () => {
  await using world = await World.start()
  for (const cause of causes) world.hang(60, cause)
  world.hang(60)
  assert.equal((await world.read(alice, 'a.com')).did, alice)
  assert.equal((await world.read(world.did, 'e.com')).did, world.did)
})

test('one host alone has half of what may be under way, and the rest of its readings wait', async () => {
  await using world = await World.start()
  world.hang(200, 'a.com')
  const own = world.read(world.did, 'a.com')
  assert.equal((await world.read(alice, 'a.com')).did, alice)
  assert.deepEqual(world.web.requests, [])
  // The same document is read for another at once, and so for both.
  assert.equal((await world.read(world.did, 'b.com')).did, world.did)
  assert.equal((await own).did, world.did)
  assert.equal(world.web.requests.length, 1)
})

test('a place is free again when its reading is over', async () => {
  await using world = await World.start()
  world.hang(200, 'a.com')
  const own = world.read(world.did, 'a.com')
  await world.answer()
  assert.equal((await own).did, world.did)
})

test('what waits is bounded for one host, and another can still wait', async () => {
  await using world = await World.start()
  world.hang(128 + 256, 'a.com')
  const refusal = { name: 'IdentityError', reason: 'unavailable', isOwnLimit: true }
  await assert.rejects(world.read(world.did, 'a.com'), refusal)
  assert.equal((await world.read(world.did, 'b.com')).did, world.did)
})

test('the document of one host is read ten times a second at most', async () => {
  await using world = await World.start()
  const beganMs = performance.now()
  for (let n = 0; n < 50; n++) {
    world.resolver.purge(world.did)
    await world.read(world.did).catch((error: unknown) => assert.ok(error instanceof IdentityError))
  }
  const seconds = (performance.now() - beganMs) / 1000
  assert.ok(world.web.requests.length <= 11 + 10 * seconds)
})

test('answers that come while others wait for their turn are handed on together, and one alone at once', async () => {
  const waits: (() => void)[] = []
  const resolver = createResolver({
    plcUrl: 'http://localhost',
    allowedPrivateHosts: [],
    plcPerSecond: 100,
    nowMs: () => 1_000_000,
    delay: () => new Promise((resolve) => waits.push(resolve)),
    fetch: async (url) => {
      const did = url.slice(url.indexOf('did:')) as Did // asked for below
      return { status: 200, headers: {}, body: Buffer.from(JSON.stringify(sampleDocument(did))) }
    },
  })
  await resolver.resolve(sampleDid(0))
  assert.equal(waits.length, 0)
  let read = 0
  for (let n = 1; n < 30; n++) void resolver.resolve(sampleDid(n)).then(() => read++)
  await nextTurn()
  // For the next turn, and for the answers.
  assert.deepEqual([read, waits.length], [0, 2])
  waits[1]?.()
  await nextTurn()
  assert.equal(read, 9)
})
