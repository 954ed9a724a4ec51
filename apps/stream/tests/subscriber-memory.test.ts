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
async function subscribe(port: number, query: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  const lines = [
    `GET /xrpc/network.social.stream.subscribeEvents?${query}&x=${'x'.repeat(requestBytes)} HTTP/1.1`,
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
