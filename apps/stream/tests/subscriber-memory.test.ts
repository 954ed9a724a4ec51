import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { eventually, memoryInUse } from '@tributary/testkit'
import { startLiveArchive } from './live-archive.ts'

const subscribers = 20
const requestBytes = 500_000
const headerBytes = 400_000
/** Two sockets and all that belongs to a subscriber. */
const keptBytesMax = 100_000

/** Bytes that this thread has in use. */
function bytesInUse(): number {
  const { heapUsed, external } = memoryInUse()
  return heapUsed + external
}

/** Subscribes with a filter, and with much in the request that means nothing. */
async function subscribe(
  port: number,
  query: string,
  path = 'xrpc/network.social.stream.subscribeEvents',
): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  const lines = [
    `GET /${path}?${query}&x=${'x'.repeat(requestBytes)} HTTP/1.1`,
    'Host: localhost',
    `User-Agent: ${'u'.repeat(headerBytes)}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer] // as the event is documented
  assert.match(answer.toString('latin1'), /^HTTP\/1\.1 101 /)
  return socket
}

test('a subscriber keeps its filter of what it has sent, and no more', async () => {
  await using live = await startLiveArchive()
  const port = Number(new URL(live.url).port)
  const query = (n: number): string =>
    `dids=did:plc:aaaaaaaaaaaaaaaaaaa${1000 + n}&collections=app.example.of.n${n}`
  // What a first connection makes is not what the others keep.
  const sockets = [await subscribe(port, query(0))]
  const before = bytesInUse()
  for (let n = 1; n <= subscribers; n++) sockets.push(await subscribe(port, query(n)))
  assert.equal(live.fanout.size, subscribers + 1)
  const kept = (): number => Math.round((bytesInUse() - before) / subscribers)
  await eventually(() => kept() < keptBytesMax, kept)
  for (const socket of sockets) socket.destroy()
})

test('a reader of /subscribe that changes its filter keeps nothing of the one before', async () => {
  await using live = await startLiveArchive()
  const port = Number(new URL(live.url).port)
  const update = Buffer.from('{"type":"options_update","payload":{"wantedDids":[]}}')
  // A whole text, under a mask that changes nothing.
  const frame = Buffer.concat([Buffer.from([0x81, 0x80 | update.length, 0, 0, 0, 0]), update])
  const begin = async (n: number): Promise<Socket> => {
    const dids = Array.from({ length: 70 }, (_, d) => `wantedDids=did:web:s${n}d${d}.`.padEnd(2000, 'x'))
    const socket = await subscribe(port, `${dids.join('&')}${n % 2 === 0 ? '&cursor=1' : ''}`, 'subscribe')
    socket.write(frame)
    return socket
  }
  const sockets = [await begin(0)]
  const before = bytesInUse()
  for (let n = 1; n <= subscribers; n++) sockets.push(await begin(n))
  const kept = (): number => Math.round((bytesInUse() - before) / subscribers)
  await eventually(() => live.delivery.groupCount === 1 && kept() < keptBytesMax, kept)
  for (const socket of sockets) socket.destroy()
})
