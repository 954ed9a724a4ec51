/** Which documents are read, from where, and what is taken from them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { alice, bob, World } from '../tests/resolver-world.ts'
import { sampleDid, sampleDocument } from '../tests/sample-document.ts'
import { WebServer } from '../tests/web-server.ts'
import { FetchError } from './index.ts'

test('an answer that is no document of the DID is a fault of the directory, or the word of the owner of a did:web', async () => {
  await using web = await WebServer.start()
  const did = `did:web:localhost%3A${web.port}` as Did // of the right form
  for (const body of [JSON.stringify(sampleDocument(bob)), '<html>', '[]']) {
    await using world = await World.start({ allowedPrivateHosts: [web.host] })
    world.plc.handler = web.handler = (_, response) => response.end(body)
    assert.equal((await world.refused(alice)).reason, 'unavailable', body)
    assert.equal((await world.refused(did)).reason, 'invalid', body)
  }
})

test('a document that is known stays known when the directory gives another answer', async () => {
  await using world = await World.start()
  await world.resolver.resolve(alice)
  world.plc.handler = (_, response) => response.end('<html>')
  assert.equal((await world.refused(alice, { refreshAfter: world.nowMs + 1 })).reason, 'unavailable')
  assert.equal(world.resolver.peek(alice)?.did, alice)
})

test('a directory whose own name is unknown says nothing of a DID, the unknown host of a did:web does', async () => {
  const cause = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  await using world = await World.start({
    fetch: () => Promise.reject(new FetchError('no answer', { cause })),
  })
  assert.equal((await world.refused(alice)).reason, 'unavailable')
  assert.equal((await world.refused('did:web:gone.example.com' as Did)).reason, 'not-found') // a DID as it stands
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
