import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { NameServer } from '../tests/name-server.ts'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import { WebServer } from '../tests/web-server.ts'
import { createResolver, type Identity, IdentityError, type IdentityResolver } from './index.ts'

const alice = sampleDid(1)
const share = 64
/** The hosts that together have all that may be under way. */
const causes = ['a.com', 'b.com', 'c.com', 'd.com']
const refusal = { name: 'IdentityError', reason: 'unavailable', retryAfterMs: 1000, isOwnLimit: true }

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

test('the PLC directory is read while all that may be asked of other hosts hangs', async () => {
  await using world = await World.start()
  for (const cause of causes) world.hang(share, cause)
  assert.equal((await world.read(alice, 'e.com')).did, alice)
  await assert.rejects(world.read(world.did, 'e.com'), refusal)
})

test('what one host causes has a share, and the same document is read for another at once', async () => {
  await using world = await World.start()
  world.hang(share, 'a.com')
  await assert.rejects(world.read(world.did, 'a.com'), refusal)
  assert.deepEqual(world.web.requests, [])
  assert.equal((await world.read(world.did, 'b.com')).did, world.did)
  // What is known is there for all, and PLC is not a matter of shares.
  assert.equal((await world.read(world.did, 'a.com')).did, world.did)
  assert.equal((await world.read(alice, 'a.com')).did, alice)
})

test('what is read for nobody in particular has one share', async () => {
  await using world = await World.start()
  world.hang(share)
  await assert.rejects(world.read(world.did), refusal)
  assert.equal((await world.read(world.did, 'a.com')).did, world.did)
})

test('a host without a share left has that of the one that reads the same document', async () => {
  await using world = await World.start()
  const { handler } = world.web
  const held = Promise.withResolvers<() => void>()
  world.web.handler = (...request) => held.resolve(() => handler(...request))
  world.hang(share, 'a.com')
  const first = world.read(world.did, 'b.com')
  const second = world.read(world.did, 'a.com')
  const release = await held.promise
  release()
  assert.equal(await first, await second)
  assert.equal(world.web.requests.length, 1)
})

test('a share is free again when its readings are over', async () => {
  await using world = await World.start()
  world.hang(share, 'a.com')
  await assert.rejects(world.read(world.did, 'a.com'), IdentityError)
  await world.answer()
  assert.equal((await world.read(world.did, 'a.com')).did, world.did)
})
