import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Handle } from '@tributary/protocol'
import { NameServer } from '../tests/name-server.ts'
import { WebServer } from '../tests/web-server.ts'
import { createHandleResolver, FetchError, safeFetch } from './index.ts'

const alice = 'did:plc:aliceaaaaaaaaaaaaaaaaaaa'
const bob = 'did:plc:bobbbbbbbbbbbbbbbbbbbbbb'
const handle = 'alice.network' as Handle // a valid one

/** Resolves names by a name server and a web server of the test's. */
async function resolve(names: NameServer, web?: WebServer): Promise<string | undefined> {
  const toWeb: typeof safeFetch = (url, options) => {
    assert.equal(url, `https://${handle}/.well-known/atproto-did`)
    if (web === undefined) return safeFetch(url, options)
    return safeFetch(`${web.url}/.well-known/atproto-did`, { ...options, allowedPrivateHosts: [web.host] })
  }
  const resolver = createHandleResolver({
    allowedPrivateHosts: [],
    nameServers: names.addresses,
    fetch: toWeb,
  })
  return resolver(handle)
}

test('a TXT record of the name decides, and the host is not asked', async () => {
  await using web = await WebServer.start()
  await using names = await NameServer.start((name, type) =>
    name === `_atproto.${handle}` && type === 'TXT'
      ? ['v=spf1', `did=${alice}`, `did=${alice}`]
      : 'no-such-name',
  )
  assert.equal(await resolve(names, web), alice)
  names.handler = () => [`did=${alice}`, `did=${bob}`]
  assert.equal(await resolve(names, web), undefined)
  names.handler = () => ['did=alice']
  assert.equal(await resolve(names, web), undefined)
  assert.deepEqual(web.requests, [])
})

test('without a TXT record the text of the host decides', async () => {
  await using names = await NameServer.start()
  await using web = await WebServer.start()
  const answers = async (status: number, text: string): Promise<string | undefined> => {
    web.handler = (_, response) => void response.writeHead(status).end(text)
    return resolve(names, web)
  }
  assert.equal(await answers(200, ` ${alice}\n`), alice)
  assert.equal(await answers(200, '<html>'), undefined)
  assert.equal(await answers(404, alice), undefined)
  assert.equal(await answers(200, '<html>'.repeat(9000)), undefined, 'a page for every path')
  for (const status of [503, 408, 429]) await assert.rejects(answers(status, alice), FetchError)
  await assert.rejects(answers(200, 'x'.repeat(100_000)), FetchError)
})

test('a name that does not exist points to nobody, and servers that fail say nothing', async () => {
  await using names = await NameServer.start()
  assert.equal(await resolve(names), undefined)
  names.handler = () => 'failure'
  await assert.rejects(resolve(names), FetchError)
  await using web = await WebServer.start()
  web.handler = (_, response) => void response.writeHead(200).end(alice)
  assert.equal(await resolve(names, web), alice)
  web.handler = (_, response) => void response.writeHead(404).end()
  await assert.rejects(resolve(names, web), FetchError)
})

test('a host on a private address is not asked, and a reserved name is nobody’s', async () => {
  await using names = await NameServer.start((_, type) => (type === 'A' ? ['127.0.0.1'] : []))
  await assert.rejects(resolve(names), FetchError)
  const resolver = createHandleResolver({ allowedPrivateHosts: [], nameServers: names.addresses })
  const before = names.questions.length
  for (const reserved of ['alice.test', 'alice.local', 'alice.internal'] as Handle[])
    // syntactically valid
    assert.equal(await resolver(reserved), undefined)
  assert.equal(names.questions.length, before)
})

test('a domain of a local network is asked of the host that the operator names', async () => {
  await using names = await NameServer.start()
  await using web = await WebServer.start()
  const asked = `/xrpc/com.atproto.identity.resolveHandle?handle=alice.pds1.test`
  web.serve({ [asked]: { did: alice } })
  const resolver = createHandleResolver({
    allowedPrivateHosts: [],
    nameServers: names.addresses,
    handleHosts: [`pds1.test=${web.url}`],
  })
  assert.equal(await resolver('alice.pds1.test' as Handle), alice) // a valid one
  assert.equal(await resolver('bob.pds1.test' as Handle), undefined) // a valid one
  const before = web.requests.length
  assert.equal(await resolver('alice.otherpds1.test' as Handle), undefined) // a valid one
  assert.equal(web.requests.length, before)
  assert.equal(await resolver('alice.otherpds1.test' as Handle), undefined) // a valid one
  assert.deepEqual(names.questions, [])
  for (const status of [502, 429]) {
    web.handler = (_, response) => void response.writeHead(status).end()
    await assert.rejects(resolver('alice.pds1.test' as Handle), FetchError) // a valid one
  }
})
