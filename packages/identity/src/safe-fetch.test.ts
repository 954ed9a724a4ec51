import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Agent, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WebServer } from '../tests/web-server.ts'
import { FetchError } from './fetch-error.ts'
import { safeFetch, safeFetchPieces, socketOptions } from './safe-fetch.ts'

test('connections with TLS share its set-up, which is most of what one to nowhere costs', () => {
  const { secureContext } = socketOptions('https://a.example', { allowedPrivateHosts: [] })
  assert.ok(secureContext)
  assert.equal(socketOptions('wss://b.example', { allowedPrivateHosts: [] }).secureContext, secureContext)
})

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

test('a literal address is never dialled', async () => {
  let dialled = 0
  const onSocket = (): void => void dialled++
  subscribe('net.client.socket', onSocket)
  try {
    for (const address of [
      '127.0.0.1',
      '0x7f.1',
      '2130706433',
      '10.0.0.1',
      '8.8.8.8',
      '[::1]',
      '[::ffff:7f00:1]',
    ])
      await assert.rejects(safeFetch(`https://${address}`, { allowedPrivateHosts: [] }), FetchError, address)
    assert.equal(dialled, 0)
  } finally {
    unsubscribe('net.client.socket', onSocket)
  }
})

test('a public host is dialled with TLS and on the usual port only, and what is wrong is said', () => {
  const none = { allowedPrivateHosts: ['localhost:1'] }
  for (const [url, message] of [
    ['http://pds.example.com', 'TLS is required'],
    ['ws://pds.example.com', 'TLS is required'],
    ['https://pds.example.com:8443', 'only the usual port is allowed'],
    ['wss://localhost', undefined],
  ] as const) {
    if (message === undefined) socketOptions(url, none)
    else assert.throws(() => socketOptions(url, none), { name: 'FetchError', message })
  }
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

test('a redirect of another host does not lead to an allowed private host', async () => {
  await using inner = await WebServer.start()
  await using outer = await WebServer.start()
  const allowedPrivateHosts = ['localhost', `127.0.0.1:${inner.port}`]
  let location = `http://127.0.0.1:${inner.port}/secret`
  outer.handler = (_, response) => response.writeHead(302, { location }).end()
  await assert.rejects(safeFetch(outer.url, { allowedPrivateHosts }), FetchError)
  assert.equal(inner.connections, 0)
  location = inner.url
  inner.handler = (_, response) => response.end()
  assert.equal((await safeFetch(outer.url, { allowedPrivateHosts })).status, 200, 'a port of the same host')
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
  server.handler = (_, response) => {
    for (const length of [600, 401]) response.write(Buffer.alloc(length))
    response.end()
  }
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

/** Sends zeros for as long as they are taken. */
function sendZeros(response: ServerResponse, left: number): void {
  const zeros = Buffer.alloc(65_536)
  const send = (): void => {
    for (let isTaken = true; isTaken && left > 0; left -= zeros.length) isTaken = response.write(zeros)
    if (left > 0) response.once('drain', send)
    else response.end()
  }
  send()
}

test('a large answer is given away in small pieces, each in a turn of its own, and no more is read than is wanted', async (t) => {
  await using server = await WebServer.start()
  const bytesMax = 67_108_864
  server.handler = (_, response) => sendZeros(response, bytesMax)
  const options = { allowedPrivateHosts: [server.host], bytesMax }
  const watch = { turns: 0, isOver: false }
  const countTurns = async (): Promise<void> => {
    for (; !watch.isOver; watch.turns++) await nextTurn()
  }
  void countTurns()
  t.after(() => void (watch.isOver = true))
  const lengths: number[] = []
  let turnOfLast = -1
  const { status } = await safeFetchPieces(server.url, options, (piece, head) => {
    assert.equal(head.status, 200)
    assert.notEqual(watch.turns, turnOfLast)
    turnOfLast = watch.turns
    return lengths.push(piece.length) < 20 ? 'more' : 'enough'
  })
  assert.equal(status, 200)
  assert.equal(lengths.length, 20)
  assert.ok(Math.max(...lengths) <= 131_072, `${Math.max(...lengths)} bytes`)

  // The connection is gone, so the server stops as well.
  const closed = Promise.withResolvers<void>()
  server.handler = (_, response) => {
    response.once('close', () => closed.resolve())
    sendZeros(response, bytesMax)
  }
  await safeFetchPieces(server.url, options, () => 'enough')
  await closed.promise
})

test('pieces are taken one after the other, and what is thrown then is thrown on', async () => {
  await using server = await WebServer.start()
  server.handler = (_, response) => sendZeros(response, 1_048_576)
  const options = { allowedPrivateHosts: [server.host], bytesMax: 1_048_576 }
  let isBusy = false
  // The end of an answer may come while its last piece is taken, or after that.
  for (let round = 0; round < 100; round++) {
    let length = 0
    await safeFetchPieces(server.url, options, async (piece): Promise<'more'> => {
      assert.ok(!isBusy)
      isBusy = true
      await nextTurn()
      isBusy = false
      length += piece.length
      return 'more'
    })
    assert.equal(length, 1_048_576)
  }
  const fault = new RangeError('not what was wanted')
  const refuse = (): Promise<never> => Promise.reject(fault)
  await assert.rejects(safeFetchPieces(server.url, options, refuse), fault)
  server.handler = (_, response) => response.end('short')
  await assert.rejects(safeFetchPieces(server.url, options, refuse), fault)
  // The time that taking them needs counts.
  server.handler = (_, response) => sendZeros(response, 1_048_576)
  const never = (): Promise<never> => new Promise(() => {})
  await assert.rejects(safeFetchPieces(server.url, { ...options, timeoutMs: 50 }, never), FetchError)
})

test('a server that sends a byte at a time is given up when the time for the whole answer is over', async () => {
  await using server = await WebServer.start()
  const closed = Promise.withResolvers<void>()
  server.handler = (_, response) => {
    const timer = setInterval(() => response.write('x'), 5)
    response.once('close', () => {
      clearInterval(timer)
      closed.resolve()
    })
  }
  const options = { allowedPrivateHosts: [server.host], timeoutMs: 100 }
  await assert.rejects(safeFetch(server.url, options), FetchError)
  await closed.promise
})

test('thousands of fragments or interim answers in one packet are not dealt with', async () => {
  await using server = await WebServer.start()
  const fetch = () => safeFetch(server.url, { allowedPrivateHosts: [server.host] })
  server.handler = (_path, _response, { socket }) => {
    socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`)
  }
  await assert.rejects(fetch(), { name: 'FetchError', message: 'the answer comes in too small fragments' })
  server.handler = (_path, _response, { socket }) => {
    socket.write(`${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(5000)}HTTP/1.1 204 No Content\r\n\r\n`)
  }
  await assert.rejects(fetch(), { name: 'FetchError', message: 'too many interim answers' })
  // What a server does that streams its answer is fine.
  server.handler = (_, response) => {
    for (let n = 0; n < 500; n++) response.write('x')
    response.end()
  }
  assert.equal((await fetch()).body.length, 500)
})

test(
  'a server that changes to another protocol, which nobody asked for, has not answered',
  { timeout: 20_000 },
  async () => {
    await using server = await WebServer.start()
    server.handler = (_path, _response, { socket }) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    }
    const options = { allowedPrivateHosts: [server.host], timeoutMs: 2000 }
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (const kept of [{}, { agent }])
      await assert.rejects(safeFetch(server.url, { ...options, ...kept }), {
        name: 'FetchError',
        message: 'the connection closed without an answer',
      })
    // The kept place is free again.
    server.handler = (_, response) => response.end('here')
    assert.equal((await safeFetch(server.url, { ...options, agent })).body.toString(), 'here')
  },
)
