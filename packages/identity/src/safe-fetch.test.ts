import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { WebServer } from '../tests/web-server.ts'
import { FetchError } from './fetch-error.ts'
import { safeFetch } from './safe-fetch.ts'

test('an allowed private host is read, with whatever status it answers', async () => {
  await using server = await WebServer.start()
  server.handler = (_, response) => response.writeHead(418, { 'x-tea': 'green' }).end('pot')
  const { status, headers, body } = await safeFetch(server.url, { allowedPrivateHosts: [server.host] })
  assert.deepEqual([status, headers['x-tea'], body.toString()], [418, 'green', 'pot'])
})

test('a private host that is not allowed is never connected to', async () => {
  await using server = await WebServer.start()
  const addresses = [
    server.url,
    `http://127.0.0.1:${server.port}`,
    `https://localhost:${server.port}`,
    `ws://${server.host}`,
  ]
  for (const url of [
    ...addresses,
    'https://127.0.0.1',
    'https://[::1]',
    'https://0x7f.1',
    'http://example.com',
    'file:///etc/passwd',
    '',
    'x',
  ]) {
    await assert.rejects(safeFetch(url, { allowedPrivateHosts: ['localhost:1'] }), FetchError, url)
  }
  assert.equal(server.connections, 0)
})

test('a redirect is checked like the first address, and their number is bounded', async () => {
  await using inner = await WebServer.start()
  await using outer = await WebServer.start()
  const allowedPrivateHosts = [outer.host]
  outer.handler = (_, response) => response.writeHead(302, { location: `${inner.url}/secret` }).end()
  await assert.rejects(safeFetch(outer.url, { allowedPrivateHosts }), FetchError)
  assert.equal(inner.connections, 0)

  outer.handler = (path, response) =>
    path === '/3'
      ? response.end('there')
      : response.writeHead(307, { location: `/${Number(path.slice(1)) + 1}` }).end()
  assert.equal((await safeFetch(`${outer.url}/0`, { allowedPrivateHosts })).body.toString(), 'there')
  await assert.rejects(safeFetch(`${outer.url}/-1`, { allowedPrivateHosts }), FetchError)
  assert.equal((await safeFetch(`${outer.url}/2`, { allowedPrivateHosts, redirectsMax: 1 })).status, 200)
})

test('what is sent along stays with the host that it was meant for', async () => {
  await using other = await WebServer.start()
  await using first = await WebServer.start()
  const seen: (string | undefined)[] = []
  other.handler = (_, response, { headers }) => {
    seen.push(headers.authorization, headers.accept)
    response.end()
  }
  first.handler = (_, response) => response.writeHead(302, { location: other.url }).end()
  const headers = { authorization: 'Bearer x', accept: 'text/plain' }
  await safeFetch(first.url, { allowedPrivateHosts: ['localhost'], headers })
  assert.deepEqual(seen, [undefined, 'text/plain'])
})

test('an answer that is too long, too slow or cut off is an error', async () => {
  await using server = await WebServer.start()
  const fetch = (options: object) => safeFetch(server.url, { allowedPrivateHosts: [server.host], ...options })
  server.handler = (_, response) => response.end(Buffer.alloc(1001))
  await assert.rejects(fetch({ bytesMax: 1000 }), FetchError)
  assert.equal((await fetch({ bytesMax: 1001 })).body.length, 1001)
  server.handler = (_, response) => response.write('a beginning')
  await assert.rejects(fetch({ timeoutMs: 50 }), FetchError)
  await assert.rejects(fetch({ signal: AbortSignal.abort() }), FetchError)
  server.handler = (_, response) =>
    response.writeHead(200, { 'content-length': '10' }).write('x', () => response.destroy())
  await assert.rejects(fetch({}), FetchError)
})

test('a kept connection that the server closes just as it is used again is replaced by a new one', async () => {
  await using server = await WebServer.start()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const used = new Set<Socket>()
  server.handler = (_, response, { socket }) => {
    if (used.has(socket)) socket.destroy()
    else response.end('fresh')
    used.add(socket)
  }
  for (let i = 0; i < 3; i++) {
    const { body } = await safeFetch(server.url, { allowedPrivateHosts: [server.host], agent })
    assert.equal(body.toString(), 'fresh')
  }
  assert.ok(server.requests.length > 3)
})
