import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { createResolver } from '@tributary/identity'
import { IdentityReads } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import { IdentityHints } from '../src/pipeline/identity-hints.ts'
import type { UpstreamEvent } from '../src/sources/upstream-event.ts'

/** Never answers, and after the test is not there. */
const nameServer = createSocket('udp4').unref()
await new Promise<void>((resolve) => nameServer.bind(0, '127.0.0.1', resolve))
const asked: (string | undefined)[] = []
const web = createServer(({ url = '' }, response) => {
  asked.push(url)
  const id = url.startsWith('/did:plc:') ? url.slice(1) : good
  const service = [{ id: '#atproto_pds', serviceEndpoint: 'https://good.com' }]
  response.end(JSON.stringify({ id, service }))
})
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
const { port } = web.address() as AddressInfo // it listens on a port
const good = `did:web:localhost%3A${port}` as Did // a DID as it stands
after(() => void web.close())

const patient = { untilMs: Infinity, refreshAfter: 0, signal: new AbortController().signal }

test('one source that names accounts whose hosts never answer does not hold up those of another', async () => {
  const reads = new IdentityReads(
    createResolver({
      plcUrl: 'http://localhost:1',
      allowedPrivateHosts: [`localhost:${port}`],
      nameServers: [`127.0.0.1:${nameServer.address().port}`],
    }),
  )
  const stop = new AbortController()
  let faults = 0
  const hostile = {
    ...patient,
    onBehalfOf: 'hostile.com',
    signal: stop.signal,
    onFault: () => void faults++,
  }
  // More than may be read or waited for on behalf of one source.
  const hanging = Array.from(
    { length: 512 },
    (_, n) => reads.read(`did:web:x${n}.tarpit.com` as Did, hostile), // a DID as it stands
  )
  const onFault = (error: Error) => assert.fail(error)
  assert.equal(await reads.read(good, { ...patient, onBehalfOf: 'good.com', onFault }), 'ready')
  assert.ok(faults > 0)
  stop.abort()
  nameServer.close()
  await Promise.all(hanging)
})

test('the document of an account that nobody knows is read once when its #identity comes', async () => {
  const resolver = createResolver({ plcUrl: `http://localhost:${port}`, allowedPrivateHosts: [] })
  const hints = new IdentityHints(resolver)
  const did = `did:plc:${'a'.repeat(24)}` as Did // a DID as it stands
  const message = { kind: 'identity', did }
  const source = { host: 'good.com', policy: { kind: 'pds' } }
  const receipt = { receivedAtMs: Date.now() }
  const event = { message, source, receipt, hasAskedAnew: false } as UpstreamEvent // all that is looked at
  assert.equal(hints.identityFor(event), undefined)
  const onFault = (error: Error) => assert.fail(error)
  await new IdentityReads(resolver).read(did, { ...patient, onBehalfOf: 'good.com', onFault })
  assert.equal(hints.identityFor(event)?.did, did)
  assert.deepEqual(
    asked.filter((path) => path === `/${did}`),
    [`/${did}`],
  )
})

test('what another relay says of an account takes its document from nobody, and no look from its own host', async () => {
  const resolver = createResolver({ plcUrl: `http://localhost:${port}`, allowedPrivateHosts: [] })
  const hints = new IdentityHints(resolver)
  const did = `did:plc:${'b'.repeat(24)}` as Did // a DID as it stands
  await resolver.resolve(did, { onBehalfOf: 'good.com' })
  let speaker = 'good.com'
  const eventOf = (host: string, kind: string): UpstreamEvent => {
    const source = { id: host === speaker ? 1 : 2, host, policy: { kind } }
    const receipt = { receivedAtMs: Date.now() + 1 }
    const flags = { hasAskedAnew: false, needsFreshKey: false }
    const account = { sourceId: 1 }
    return { message: { kind: 'identity', did }, account, source, receipt, ...flags } as UpstreamEvent // all that is looked at
  }
  for (let count = 0; count < 12; count++) {
    const event = eventOf('relay.com', 'relay')
    assert.equal(hints.identityFor(event)?.did, did)
    // Ten of a minute wait for a new look.
    assert.equal(event.needsFreshKey, count < 10)
  }
  assert.equal(resolver.peek(did)?.did, did)
  assert.equal(hints.identityFor(eventOf('good.com', 'pds')), undefined)
  // The relay that brings the account keeps nobody waiting but its own events of it.
  await resolver.resolve(did, { onBehalfOf: 'good.com' })
  speaker = 'bringing.com'
  assert.equal(hints.identityFor(eventOf('bringing.com', 'relay')), undefined)
})
