import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import { exchange, startTestServer } from './test-server.ts'
import { XrpcError } from './xrpc-error.ts'
import type { XrpcServer } from './xrpc-server.ts'

const upgrade = (path: string, protocol = 'websocket'): string =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: ${protocol}\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n'

/** A subscription that sends its parameters and client address as one message. */
function echo(server: XrpcServer): void {
  const sockets = new WebSocketServer({ noServer: true })
  server.subscription<{ cursor?: number }>('test.call.subscribe', ({ params, clientAddress }) => {
    if (params.cursor === 400) throw new XrpcError(400, 'CursorTooOld', 'start again', { 'X-Oldest': '7' })
    if (params.cursor === 500) throw new Error('the password is hunter2')
    return (request, socket, head) =>
      sockets.handleUpgrade(request, socket, head, (client) =>
        client.send(JSON.stringify({ params, clientAddress })),
      )
  })
}

test('a WebSocket request is handed over with its parameters and the address that it came from', async () => {
  await using running = await startTestServer(echo)
  const client = new WebSocket(`ws://127.0.0.1:${running.port}/xrpc/test.call.subscribe?cursor=5&other=1`, {
    headers: { 'x-forwarded-for': '203.0.113.9' },
  })
  const [data] = await once(client, 'message')
  assert.deepEqual(JSON.parse(String(data)), { params: { cursor: 5 }, clientAddress: '127.0.0.1' })
  client.close()
  await once(client, 'close')
})

test('before the handshake a refusal is a plain HTTP error', async () => {
  await using running = await startTestServer(echo)
  const refused = await exchange(running.port, upgrade('/xrpc/test.call.subscribe?cursor=400'))
  assert.match(
    refused,
    /^HTTP\/1\.1 400 Bad Request\r\nX-Oldest: 7\r\n[^]*\r\n\r\n\{"error":"CursorTooOld","message":"start again"\}$/,
  )
  const invalid = await exchange(running.port, upgrade('/xrpc/test.call.subscribe?cursor=x'))
  assert.match(invalid, /^HTTP\/1\.1 400 [^]*cursor must be an integer/)
  const broken = await exchange(running.port, upgrade('/xrpc/test.call.subscribe?cursor=500'))
  assert.match(broken, /^HTTP\/1\.1 500 [^]*"InternalServerError"/)
  assert.doesNotMatch(broken, /hunter2/)
  assert.match(running.logged.join(''), /hunter2/)
})

test('a refusal is told on a connection that has brought answers before, too', async () => {
  await using running = await startTestServer((server) => {
    echo(server)
    server.route('GET', '/_health', () => ({ ok: true }))
  })
  const answers = await exchange(
    running.port,
    `GET /_health HTTP/1.1\r\nHost: a\r\n\r\n${upgrade('/xrpc/test.call.subscribe?cursor=400')}`,
  )
  assert.match(answers, /^HTTP\/1\.1 200 [^]*HTTP\/1\.1 400 [^]*"CursorTooOld"/)
})

test('who is not admitted is refused before anything is decoded', async () => {
  await using running = await startTestServer((server) =>
    server.subscription('test.call.subscribe', () => assert.fail('it was admitted'), {
      admit: (address) => {
        throw new XrpcError(429, 'RateLimitExceeded', `${address} asks too much`)
      },
    }),
  )
  const answer = await exchange(running.port, upgrade('/xrpc/test.call.subscribe?cursor=not-a-number'))
  assert.match(answer, /^HTTP\/1\.1 429 [^]*127\.0\.0\.1 asks too much/)
})

test('long queries of a network are decoded in turns, and only so many wait', async () => {
  await using running = await startTestServer(() => undefined)
  const long = { url: `/x?${'a'.repeat(20_000)}` } as IncomingMessage // all that is looked at
  const short = { url: '/x' } as IncomingMessage // likewise
  const decoded: string[] = []
  const decode = (request: IncomingMessage, name: string) =>
    running.server.decode(request, '127.0.0.1', () => void decoded.push(name))
  const all = [decode(long, 'first'), decode(long, 'second'), decode(short, 'short')]
  for (let count = 0; count < 19; count++) all.push(decode(long, 'more'))
  await assert.rejects(decode(long, 'one too many'), { status: 429 })
  await Promise.all(all)
  assert.deepEqual(decoded.slice(0, 3), ['first', 'short', 'second'])
})

test('a handler that fails after it wrote to the socket closes it without another word', async () => {
  await using running = await startTestServer((server) =>
    server.subscription('test.call.subscribe', () => (_request, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
      throw new XrpcError(400, 'TooLate', 'nobody hears this')
    }),
  )
  const answer = await exchange(running.port, upgrade('/xrpc/test.call.subscribe'))
  assert.doesNotMatch(answer, /TooLate/)
})

test('a WebSocket of another path is handed over, and refused in plain text', async () => {
  await using running = await startTestServer((server) =>
    server.webSocket('/plain', async ({ request, clientAddress }) => {
      if (request.url === '/plain?broken') throw new Error('the password is hunter2')
      throw new XrpcError(429, 'RateLimitExceeded', `${clientAddress} asks too much`, { 'Retry-After': '60' })
    }),
  )
  assert.match(
    await exchange(running.port, upgrade('/plain?x')),
    /^HTTP\/1\.1 429 [^]*Retry-After: 60\r\nContent-Type: text\/plain; [^]*\r\n\r\n127\.0\.0\.1 asks too much\n$/,
  )
  const broken = await exchange(running.port, upgrade('/plain?broken'))
  assert.match(broken, /^HTTP\/1\.1 500 [^]*text\/plain[^]*Trying again later may help\.\n$/)
  assert.doesNotMatch(broken, /hunter2/)
  const plain = await exchange(running.port, upgrade('/plain', 'h2c'))
  assert.match(
    plain,
    /^HTTP\/1\.1 426 [^]*text\/plain[^]*is a WebSocket: connect with a WebSocket client\n$/i,
  )
})

test('an upgrade that is not for a subscription is an ordinary request', async () => {
  await using running = await startTestServer((server) => {
    echo(server)
    server.route('GET', '/_health', () => ({ ok: true }))
  })
  assert.match(await exchange(running.port, upgrade('/_health', 'h2c')), /^HTTP\/1\.1 200 [^]*\{"ok":true\}$/)
  assert.match(await exchange(running.port, upgrade('/xrpc/test.call.other')), /^HTTP\/1\.1 501 /)
  assert.match(await exchange(running.port, upgrade('/xrpc/test.call.subscribe', 'h2c')), /^HTTP\/1\.1 426 /)
})

test('a peer that resets while its request is being decided harms nobody', async () => {
  const arrived = Promise.withResolvers<void>()
  const gone = Promise.withResolvers<void>()
  await using running = await startTestServer((server) =>
    server.subscription('test.call.subscribe', async ({ request: { socket } }) => {
      socket.once('close', () => gone.resolve())
      socket.resume()
      arrived.resolve()
      await gone.promise
      throw new XrpcError(400, 'TooLate', 'nobody hears this')
    }),
  )
  const socket = connect(running.port, '127.0.0.1')
  socket.write(upgrade('/xrpc/test.call.subscribe'))
  await arrived.promise
  socket.resetAndDestroy()
  await gone.promise
  assert.match(await exchange(running.port, upgrade('/xrpc/test.call.other')), /^HTTP\/1\.1 501 /)
})

test('close ends sockets that nobody else ended', async () => {
  const running = await startTestServer(echo)
  const client = new WebSocket(`ws://127.0.0.1:${running.port}/xrpc/test.call.subscribe`)
  await once(client, 'message')
  const closed = once(client, 'close')
  await running.server.close()
  assert.equal((await closed)[0], 1006)
})
