import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { NameServer } from '../tests/name-server.ts'
import { createResolver, FetchError, safeFetch, socketOptions } from './index.ts'

/** Looks a name up as a socket would. */
function lookUp(
  server: NameServer,
  name: string,
  { family, all = true, signal }: { family?: number; all?: boolean; signal?: AbortSignal } = {},
): Promise<LookupAddress[]> {
  const nameServers = server.addresses
  const options = { allowedPrivateHosts: [], nameServers, ...(signal && { signal }) }
  const { lookup } = socketOptions(`https://${name}`, options)
  return new Promise((resolve, reject) =>
    lookup(name, { all, ...(family !== undefined && { family }) }, (error, found, its) => {
      if (error) reject(error)
      else resolve(typeof found === 'string' ? [{ address: found, family: its ?? 0 }] : found)
    }),
  )
}

const ipv4 = { address: '192.0.1.7', family: 4 }
const ipv6 = { address: '2600:1f18::7', family: 6 }

test('a name has the addresses of both families, IPv4 first, or those that are wanted', async () => {
  await using server = await NameServer.start((_, type) => [type === 'A' ? ipv4.address : ipv6.address])
  assert.deepEqual(await lookUp(server, 'both.com'), [ipv4, ipv6])
  assert.deepEqual(await lookUp(server, 'both.com', { all: false }), [ipv4])
  assert.deepEqual(await lookUp(server, 'both.com', { family: 6 }), [ipv6])
  assert.deepEqual(await lookUp(server, 'both.com', { family: 4, all: false }), [ipv4])
  server.handler = (_, type) => (type === 'A' ? [] : [ipv6.address])
  assert.deepEqual(await lookUp(server, 'new.com'), [ipv6])
  await assert.rejects(lookUp(server, 'new.com', { family: 4 }), { code: 'ENOTFOUND' })
})

test('names whose servers never answer do not hold up one that is answered', async () => {
  await using server = await NameServer.start((name, type) => {
    if (name.endsWith('.tarpit.com')) return 'silence'
    return type === 'A' ? [ipv4.address] : []
  })
  const stop = new AbortController()
  const names = Array.from({ length: 50 }, (_, n) => `x${n}.tarpit.com`)
  const hanging = names.map((name) => lookUp(server, name, { signal: stop.signal }))
  const ended = Promise.allSettled(hanging)
  const first = await Promise.race([lookUp(server, 'good.com'), ended])
  assert.deepEqual(first, [ipv4])
  stop.abort()
  for (const { status } of await ended) assert.equal(status, 'rejected')
  await assert.rejects(lookUp(server, 'good.com', { signal: stop.signal }), { name: 'AbortError' })
})

test('a request that is given up ends its look-up', async (t) => {
  await using server = await NameServer.start(() => 'silence')
  const cancel = t.mock.method(Resolver.prototype, 'cancel')
  const options = { allowedPrivateHosts: [], nameServers: server.addresses, timeoutMs: 1000 }
  await assert.rejects(safeFetch('https://tarpit.com', options), FetchError)
  assert.deepEqual([server.questions.length, cancel.mock.callCount()], [2, 1])
})

test('an answer for IPv4 does not wait for long for one for IPv6', async () => {
  await using server = await NameServer.start((_, type) => (type === 'A' ? [ipv4.address] : 'silence'))
  assert.deepEqual(await lookUp(server, 'half.com'), [ipv4])
  assert.equal(server.questions.length, 2)
})

test('a name that does not exist is an answer, a name server that fails is none', async () => {
  await using server = await NameServer.start()
  const options = { allowedPrivateHosts: [], nameServers: server.addresses, plcUrl: 'https://plc.invalid' }
  const isUnknown = (error: unknown): boolean => error instanceof FetchError && error.isNameUnknown
  await assert.rejects(safeFetch('https://gone.com', options), isUnknown)
  const resolver = createResolver(options)
  const gone = { name: 'IdentityError', reason: 'not-found', retryable: false }
  await assert.rejects(resolver.resolve('did:web:gone.com' as Did), gone) // a DID as it stands
  // A name without an address, and half an answer.
  server.handler = () => []
  await assert.rejects(lookUp(server, 'empty.com'), { code: 'ENOTFOUND' })
  await assert.rejects(lookUp(server, `${'x'.repeat(64)}.com`), { code: 'ENOTFOUND' })
  server.handler = (_, type) => (type === 'A' ? 'failure' : 'no-such-name')
  const unavailable = { name: 'IdentityError', reason: 'unavailable' }
  await assert.rejects(resolver.resolve('did:web:half.com' as Did), unavailable) // a DID as it stands
})

test('a name with a private address among its addresses is refused', async () => {
  await using server = await NameServer.start()
  const options = { allowedPrivateHosts: [], nameServers: server.addresses }
  for (const [a, aaaa] of [
    [['127.0.0.1'], []],
    [[ipv4.address, '10.0.0.1'], []],
    [[ipv4.address], ['::1']],
    [[], ['::ffff:7f00:1']],
  ] as const) {
    server.handler = (_, type) => (type === 'A' ? a : aaaa)
    const refusal = { name: 'FetchError', message: 'inside.com has a private address' }
    await assert.rejects(safeFetch('https://inside.com', options), refusal)
  }
})
