import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { test } from 'node:test'
import { readMessage } from '@tributary/repo-verify'
import { encodeError, encodeEvent } from '@tributary/testkit'
import { newSourcePolicy } from '../policy/source-policy.ts'
import { SourceSocket, type Ending, type SocketTimes } from './source-socket.ts'
import { Source } from './source.ts'

const patientMs = 60_000
const patient = {
  handshakeMsMax: patientMs,
  pingMs: patientMs,
  silentMsMax: patientMs,
  messageMsMax: patientMs,
}

/**
 * How the connection to a host ends that shakes hands and then does something else than it should.
 * @param cursor the position that the host is asked for.
 * @param received the seqs that were handed on.
 */
async function endingWith(
  times: Partial<SocketTimes>,
  misbehave: (socket: Socket) => void,
  { cursor = 0, received }: { cursor?: number; received?: number[] } = {},
): Promise<Ending> {
  const server = createServer()
  server.on('upgrade', (request, socket: Socket) => {
    const accept = hash(
      'sha1',
      `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
      'base64',
    )
    socket.on('error', () => undefined)
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    )
    misbehave(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on TCP
  const place = { id: 1, host, url: `ws://${host}` }
  const source = new Source(
    { ...place, cursor, epoch: 1, epochAtMs: 0, ahead: [] },
    { ...place, policy: newSourcePolicy, revision: 1, addedAtMs: 0 },
  )
  const socket = new SourceSocket(source, {
    pipeline: {
      receive: (_, frame) => {
        if (!received) assert.fail('no message ever came to its end')
        const message = readMessage(frame)
        const seq = message.ok && 'upstreamSeq' in message ? (message.upstreamSeq ?? 0) : 0
        received.push(seq)
        return seq
      },
    },
    connectOptions: () => ({}),
    userAgent: 'test',
    onOpen: () => undefined,
    onMessage: () => undefined,
    times: { ...patient, ...times },
  })
  const ending = await socket.ended
  server.closeAllConnections()
  server.close()
  return ending
}

/** Writes the same bytes for as long as they are wanted. */
function pour(socket: Socket, bytes: Buffer, everyMs: number): void {
  const timer = setInterval(() => socket.write(bytes), everyMs)
  socket.on('close', () => clearInterval(timer))
}

/** A binary message of at least 126 and at most 65,535 bytes, as a server sends it. */
function framed(message: Uint8Array): Buffer {
  assert.ok(message.length > 125 && message.length <= 0xffff)
  return Buffer.concat([Buffer.from([0x82, 126, message.length >> 8, message.length & 0xff]), message])
}

test('an error with a long message is still read as one', async () => {
  const { reason, cause } = await endingWith({}, (socket) =>
    socket.write(framed(encodeError('FutureCursor', 'x'.repeat(40_000)))),
  )
  assert.match(reason, /^FutureCursor: xxx/)
  assert.equal(cause, 'renumbered')
})

const events = (...seqs: number[]) =>
  Buffer.concat(
    seqs.map((seq) =>
      framed(encodeEvent('#identity', { seq, did: `did:web:${'a'.repeat(120)}.test`, time: '' })),
    ),
  )

test('the event at the position that was asked for, which some relays repeat, is left out once', async () => {
  const received: number[] = []
  const send = (socket: Socket) => socket.end(events(7, 8, 7, 9))
  await endingWith({}, send, { cursor: 7, received })
  assert.deepEqual(received, [8, 7, 9])
  const fresh: number[] = []
  await endingWith({}, (socket) => socket.end(events(1, 2)), { received: fresh })
  assert.deepEqual(fresh, [1, 2])
})

test('a first event below the position that was asked for shows that the source numbers anew', async () => {
  const received: number[] = []
  const { cause } = await endingWith({}, (socket) => socket.write(events(6, 7)), { cursor: 7, received })
  assert.deepEqual([cause, received], ['renumbered', []])
})

test('a host that does not answer pings is left', async () => {
  const { reason } = await endingWith({ pingMs: 10, silentMsMax: 25 }, () => undefined)
  assert.equal(reason, 'no answer to pings')
})

test('a message of which bytes keep coming and that never ends is cut off, though pings are answered', async () => {
  const { reason } = await endingWith({ pingMs: 10, silentMsMax: 1e9, messageMsMax: 50 }, (socket) => {
    // The head of a binary frame of a million bytes.
    socket.write(Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0x0f, 0x42, 0x40]))
    pour(socket, Buffer.alloc(64), 1)
  })
  assert.equal(reason, 'a message that does not end')
})

test('a flood of pings whose answers are not taken ends the connection before they fill memory', async () => {
  const ping = Buffer.concat([Buffer.from([0x89, 125]), Buffer.alloc(125)])
  const flood = Buffer.concat(Array.from({ length: 1000 }, () => ping))
  const { reason } = await endingWith({}, (socket) => {
    // What comes back is not read.
    socket.pause()
    pour(socket, flood, 1)
  })
  assert.equal(reason, 'pings whose answers are not taken')
})
