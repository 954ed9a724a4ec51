import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { exchange, startTestServer } from './test-server.ts'
import type { XrpcServer } from './xrpc-server.ts'

const get = (path: string, more = ''): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
const close = 'Connection: close\r\n'

/** A server that notes how many calls are under way, and answers each after some turns with its path. */
function count(most: { underWay: number }): (server: XrpcServer) => void {
  let underWay = 0
  const answer = async ({ request }: { request: { url: string } }): Promise<string> => {
    most.underWay = Math.max(most.underWay, ++underWay)
    for (let turns = 0; turns < 3; turns++) await turn()
    underWay--
    return `<${request.url}>`
  }
  return (server) => {
    server.route('GET', '/call', answer)
    server.route('POST', '/take', answer)
  }
}

test('requests that one connection sends at once are begun one after the other, and answered in order', async () => {
  const most = { underWay: 0 }
  await using running = await startTestServer(count(most))
  const calls = Array.from({ length: 40 }, (_, i) => `/call?${i}`)
  const sent = calls.map((path, i) => get(path, i === calls.length - 1 ? close : '')).join('')
  const answers = await exchange(running.port, sent)
  assert.deepEqual(
    answers.match(/<[^>]*>/g),
    calls.map((path) => `<${path}>`),
  )
  assert.equal(most.underWay, 1)
})

test('a body may be followed by the head of the next request, which is the last that is begun', async () => {
  const most = { underWay: 0 }
  await using running = await startTestServer(count(most))
  const post = (more = ''): string =>
    `POST /take HTTP/1.1\r\nHost: a\r\n${more}Content-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc`
  const answers = await exchange(running.port, `${post().repeat(20)}${post(close)}`)
  assert.equal(answers.match(/<\/take>/g)?.length, 21)
  assert.ok(most.underWay <= 2)
})

test('a request that comes byte by byte, and one with a body of many parts, are answered', async () => {
  const most = { underWay: 0 }
  await using running = await startTestServer(count(most))
  const socket = connect(running.port, '127.0.0.1').setNoDelay(true)
  for (const byte of get('/call?slow')) {
    socket.write(byte)
    await turn()
  }
  const [slow] = await once(socket, 'data')
  assert.match(String(slow), /<\/call\?slow>/)
  const body = 'x\r\n\r\n'.repeat(60_000)
  const large = `POST /take HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  socket.write(large)
  const [taken] = await once(socket, 'data')
  assert.match(String(taken), /<\/take>/)
  socket.destroy()
})

test('requests of many connections that come at once leave turns of the event loop to others', async () => {
  let inTurn = 0
  let most = 0
  await using running = await startTestServer((server) =>
    server.route('GET', '/call', () => {
      most = Math.max(most, ++inTurn)
      return 'ok'
    }),
  )
  const counting = new AbortController()
  const turns = (async () => {
    while (!counting.signal.aborted) {
      await turn()
      inTurn = 0
    }
  })()
  const sent = get('/call').repeat(50) + get('/call', close)
  await Promise.all(Array.from({ length: 40 }, () => exchange(running.port, sent)))
  counting.abort()
  await turns
  assert.ok(most <= 20, `${most} calls in one turn`)
})

test('what is sent behind an upgrade goes to who took the connection over', async () => {
  const got: Buffer[] = []
  await using running = await startTestServer((server) =>
    server.subscription('test.call.subscribe', () => (_request, socket, head) => {
      // Node's own listener is left.
      const left = ['data', 'drain', 'end'].map((event) => socket.listenerCount(event))
      assert.deepEqual(left, [0, 0, 1])
      if (head.length > 0) socket.unshift(head)
      socket.on('data', (chunk: Buffer) => got.push(chunk)).on('end', () => socket.end())
      socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
    }),
  )
  const behind = `first\r\n\r\n${'x'.repeat(40_000)}last`
  const upgrade = get('/xrpc/test.call.subscribe', 'Connection: upgrade\r\nUpgrade: websocket\r\n')
  const socket = connect(running.port, '127.0.0.1')
  socket.end(`${upgrade}${behind}`)
  socket.resume()
  await once(socket, 'close')
  assert.equal(Buffer.concat(got).toString(), behind)
})

test('a caller that goes, or whose request is none, while others of it wait harms nobody', async () => {
  const most = { underWay: 0 }
  await using running = await startTestServer(count(most))
  assert.match(
    await exchange(running.port, `${get('/call?1')}no request\r\n\r\n${get('/call?2')}`),
    /^HTTP\/1\.1 200 [^]*<\/call\?1>HTTP\/1\.1 400 /,
  )
  const socket = connect(running.port, '127.0.0.1')
  socket.write(get('/call').repeat(100))
  await once(socket, 'data')
  socket.resetAndDestroy()
  assert.match(await exchange(running.port, get('/call?3', close)), /<\/call\?3>/)
  assert.deepEqual(running.logged, [])
})
