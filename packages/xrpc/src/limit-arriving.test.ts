import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { startTestServer } from './test-server.ts'

const kilobyte = 1024
const max = { all: 350 * kilobyte, perAddress: 150 * kilobyte }
/** A request that lacks its last line. */
const unfinished = `GET /_health HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(100 * kilobyte)}`

async function start(arrivingBytesMax = max) {
  const running = await startTestServer(
    (server) => server.route('GET', '/_health', () => ({ status: 'ok' })),
    { headerBytesMax: 200 * kilobyte, arrivingBytesMax, trustedProxies: ['127.0.0.9'] },
  )
  const accepted: Socket[] = []
  running.server.fastify.server.on('connection', (socket: Socket) => accepted.push(socket))
  return Object.assign(running, { accepted })
}

type Running = Awaited<ReturnType<typeof start>>

async function connectFrom(t: TestContext, port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Sends most of a request and waits until the server has it. */
async function begin(t: TestContext, running: Running, address: string): Promise<Socket> {
  const socket = await connectFrom(t, running.port, address)
  await send(running, socket, unfinished)
  return socket
}

/** Sends bytes and waits until the server has them. */
async function send({ accepted }: Running, socket: Socket, bytes: string): Promise<void> {
  await new Promise((resolve) => socket.write(bytes, resolve))
  const ours = () => accepted.find(({ remotePort }) => remotePort === socket.localPort)
  while ((ours()?.bytesRead ?? 0) < socket.bytesWritten) await setImmediate()
}

async function finish(socket: Socket): Promise<string> {
  socket.write('\r\nConnection: close\r\n\r\n')
  return await text(socket)
}

test('requests that do not end hold no more memory than their address and the server allow', async (t) => {
  await using running = await start()
  const first = await begin(t, running, '127.0.0.2')
  assert.match(await text(await begin(t, running, '127.0.0.2')), /^HTTP\/1\.1 429 [^]*RateLimitExceeded/)
  const second = await begin(t, running, '127.0.0.3')
  // Whole requests are small, and pass.
  assert.equal((await fetch(`${running.url}/_health`)).status, 200)
  // A trusted proxy may use all that is left, and no more.
  const proxied = await begin(t, running, '127.0.0.9')
  const more = await begin(t, running, '127.0.0.9')
  assert.match(await text(proxied), /^HTTP\/1\.1 503 [^]*ServiceUnavailable/)
  for (const socket of [first, second, more]) assert.match(await finish(socket), /^HTTP\/1\.1 200 /)
})

test('who holds little is answered while others hold all that there is', async (t) => {
  const size = unfinished.length
  await using running = await start({ all: 3.5 * size, perAddress: 3 * size })
  const many = [await begin(t, running, '127.0.0.2'), await begin(t, running, '127.0.0.2')]
  const one = await begin(t, running, '127.0.0.3')
  // It holds more than any other connection, and its network less than the other.
  await send(running, one, 'x'.repeat(size / 2))
  assert.equal((await fetch(`${running.url}/_health`)).status, 200)
  // One of the two that are of the same network had to go.
  const answers = await Promise.all(many.map(finish))
  assert.deepEqual(answers.map((answer) => answer.slice(9, 12)).toSorted(), ['200', '503'])
  assert.match(await finish(one), /^HTTP\/1\.1 200 /)
})

test('an error is not told within an answer that has begun', async (t) => {
  await using running = await startTestServer(
    (server) =>
      server.route('GET', '/_begin', ({ reply }) => {
        reply.raw.write('begun')
        return reply
      }),
    { arrivingBytesMax: max },
  )
  const socket = await connectFrom(t, running.port, '127.0.0.2')
  const closed = new Promise((resolve) => socket.once('close', resolve))
  let answer = ''
  socket.on('data', (bytes: Buffer) => (answer += bytes.toString()))
  socket.write('GET /_begin HTTP/1.1\r\nHost: x\r\n\r\n')
  while (!answer.includes('begun')) await setImmediate()
  socket.write('x'.repeat(max.all))
  await closed
  assert.doesNotMatch(answer, /RateLimitExceeded/)
})

test('a request gives its memory back when it is whole, and when its connection ends', async (t) => {
  await using running = await start()
  for (let i = 0; i < 4; i++) {
    const socket = await begin(t, running, '127.0.0.2')
    if (i % 2 === 0) assert.match(await finish(socket), /^HTTP\/1\.1 200 /)
    else {
      socket.destroy()
      const ours = running.accepted.at(-1)
      if (ours && !ours.closed) await once(ours, 'close')
    }
  }
})

test('an upgraded connection holds nothing, however much comes by it', async (t) => {
  const bytes: number[] = []
  await using running = await startTestServer(
    (server) =>
      server.subscription('test.call.subscribe', () => (_request, socket) => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
        socket.on('data', (chunk: Buffer) => bytes.push(chunk.length)).on('end', () => socket.end())
      }),
    { arrivingBytesMax: max },
  )
  const socket = await connectFrom(t, running.port, '127.0.0.2')
  const head =
    'GET /xrpc/test.call.subscribe HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'
  socket.write(head)
  await once(socket, 'data')
  await new Promise((resolve) => socket.write(Buffer.alloc(max.all * 2), resolve))
  socket.end()
  await text(socket)
  assert.equal(
    bytes.reduce((sum, each) => sum + each, 0),
    max.all * 2,
  )
})

test('a request that ends gives nothing back of the next one on its connection', async (t) => {
  const release = Promise.withResolvers<void>()
  await using running = await startTestServer(
    (server) => {
      server.route('GET', '/_wait', async () => await release.promise)
      server.route('POST', '/_take', () => ({}))
    },
    { arrivingBytesMax: max },
  )
  const { fastify } = running.server
  const accepted: Socket[] = []
  fastify.server.on('connection', (socket: Socket) => accepted.push(socket))
  const length = 140 * kilobyte
  const requests = `GET /_wait HTTP/1.1\r\nHost: x\r\n\r\nPOST /_take HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n`
  const socket = await connectFrom(t, running.port, '127.0.0.2')
  const begun = requests + 'x'.repeat(length - 1)
  socket.write(begun)
  while ((accepted[0]?.bytesRead ?? 0) < begun.length) await setImmediate()
  release.resolve()
  await once(socket, 'data')
  const other = await connectFrom(t, running.port, '127.0.0.2')
  other.write(begun)
  assert.match(await text(other), /HTTP\/1\.1 429 [^]*RateLimitExceeded/)
  socket.destroy()
})
