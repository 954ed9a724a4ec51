import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { createResolver } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { Identities } from '../src/pipeline/identities.ts'
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

test('one source that names accounts whose hosts never answer does not hold up those of another', async () => {
  const faults: Did[] = []
  const identities = new Identities({
    resolver: createResolver({
      plcUrl: 'http://localhost:1',
      allowedPrivateHosts: [`localhost:${port}`],
      nameServers: [`127.0.0.1:${nameServer.address().port}`],
    }),
    waitMsMax: 3_600_000,
    onFault: (did) => void faults.push(did),
  })
  const from = (host: string) => ({ source: { host }, receivedAtMs: Date.now() }) as UpstreamEvent // all that is looked at
  // As many as may be read at a time for all sources together.
  const hanging = Array.from(
    { length: 256 },
    (_, n) => identities.read(from('hostile.com'), `did:web:x${n}.tarpit.com` as Did, false), // a DID as it stands
  )
  assert.equal(await identities.read(from('good.com'), good, false), 'ready')
  assert.ok(!faults.includes(good))
  assert.ok(faults.length > 0)
  identities.close()
  nameServer.close()
  await Promise.all(hanging)
})

test('the document of an account that nobody knows is read once when its #identity comes', async () => {
  const identities = new Identities({
    resolver: createResolver({ plcUrl: `http://localhost:${port}`, allowedPrivateHosts: [] }),
    waitMsMax: 3_600_000,
    onFault: (_, error) => assert.fail(error),
  })
  const did = `did:plc:${'a'.repeat(24)}` as Did // a DID as it stands
  const source = { host: 'good.com', policy: { kind: 'pds' } }
  const message = { kind: 'identity' }
  const event = { message, source, receivedAtMs: Date.now(), hasPurged: false } as UpstreamEvent // all that is looked at
  assert.equal(identities.of(event, did), undefined)
  await identities.read(event, did, false)
  assert.equal(identities.of(event, did)?.did, did)
  assert.deepEqual(
    asked.filter((path) => path === `/${did}`),
    [`/${did}`],
  )
  identities.close()
})
