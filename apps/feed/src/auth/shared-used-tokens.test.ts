import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import type { Did } from '@tributary/protocol'
import { SharedUsedTokens } from './shared-used-tokens.ts'

const bounds = { perIssuer: 512, perNetwork: 4096, inAll: 16_384 }
const noonMs = Date.parse('2026-03-04T12:00:00Z')

/** Calls with a token, whose database takes connections and says nothing. Time passes when the test says so. */
class WaitingCalls implements AsyncDisposable {
  /** Networks and errors of the calls that have failed. */
  readonly failed: string[] = []
  readonly #store: SharedUsedTokens
  readonly #end: () => Promise<unknown>
  #count = 0

  private constructor(store: SharedUsedTokens, end: () => Promise<unknown>) {
    this.#store = store
    this.#end = end
  }

  static async start(t: TestContext): Promise<WaitingCalls> {
    const sockets = new Set<Socket>()
    const server = createServer((socket) => sockets.add(socket.on('error', () => undefined)))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo // it listens
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const store = new SharedUsedTokens(`postgres://user@127.0.0.1:${port}/tokens`, () => noonMs, bounds)
    return new WaitingCalls(store, async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await store[Symbol.asyncDispose]()
    })
  }

  call(network: string): void {
    const issuer = `did:plc:issuer${this.#count++}` as Did // DID syntax
    const spending = this.#store.spend({ issuer, nonce: 'n', expiresAt: noonMs / 1000 + 60, network })
    void spending.catch((error: Error) => this.failed.push(`${network} ${error.message}`))
  }

  async settle(): Promise<void> {
    for (let n = 0; n < 5; n++) await new Promise(setImmediate)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end()
  }
}

test('while the machine of the database is gone, a call fails in time, however many wait before it', async (t) => {
  await using calls = await WaitingCalls.start(t)
  for (let n = 0; n < 24; n++) calls.call(`192.0.2.${n}`)
  t.mock.timers.tick(4999)
  await calls.settle()
  assert.deepEqual(calls.failed, [])
  t.mock.timers.tick(1)
  await calls.settle()
  assert.equal(calls.failed.length, 24)
})

test('of the tokens of all networks only so many wait, and the network with most gives way', async (t) => {
  await using calls = await WaitingCalls.start(t)
  for (let n = 0; n < 1004; n++) calls.call(`192.0.2.${n % 11}`)
  await calls.settle()
  assert.deepEqual(calls.failed, [])
  for (let n = 0; n < 20; n++) calls.call(`198.51.100.${n}`)
  await calls.settle()
  const gaveWay = calls.failed.filter((each) => /^192[.].* too many tokens wait/.test(each))
  assert.deepEqual([gaveWay.length, calls.failed.length], [20, 20])
})
