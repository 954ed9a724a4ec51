import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { encodeEvent, eventually } from '@tributary/testkit'
import { type WebSocket, WebSocketServer } from 'ws'
import { RelayConnection } from './relay-connection.ts'

const identity = encodeEvent('#identity', {
  did: `did:plc:${'a'.repeat(24)}`,
  seq: 1,
  time: '2026-01-01T00:00:00Z',
})

/** A connection to a relay that does this with everyone who connects. */
async function connectTo(onConnection: (socket: WebSocket) => void) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  server.on('connection', onConnection)
  await new Promise((resolve) => server.once('listening', resolve))
  const states: string[] = []
  let events = 0
  let notices = 0
  const connection = new RelayConnection({
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cursor: () => 0,
    onEvent: () => events++,
    onNotice: () => notices++,
    onDefect: (error) => {
      throw error
    },
    onRenumbered: assert.fail,
    onState: ({ is }) => states.push(is),
    reconnectMs: { first: 1, max: 1 },
    pingMs: 60_000,
  })
  const stop = new AbortController()
  const start = (): void => {
    running = connection.run(stop.signal)
  }
  let running: Promise<void> | undefined
  return {
    connection,
    start,
    states,
    events: () => events,
    notices: () => notices,
    async [Symbol.asyncDispose]() {
      stop.abort()
      await running
      server.close()
    },
  }
}

test('a connection that is made while there is no room is not read before there is', async () => {
  await using relay = await connectTo((socket) => socket.send(identity))
  relay.connection.pause()
  relay.start()
  await eventually(() => relay.states.includes('connected'))
  await delay(100)
  assert.equal(relay.events(), 0)
  relay.connection.resume()
  await eventually(() => relay.events() === 1)
})

test('a relay that says again and again that events are gone is heard once for each connection', async () => {
  const outdated = encodeEvent('#info', { name: 'OutdatedCursor' })
  let connections = 0
  await using relay = await connectTo((socket) => {
    for (let n = 0; n < 10; n++) socket.send(outdated)
    socket.send(identity)
    if (++connections === 1) socket.close()
  })
  relay.start()
  await eventually(() => relay.events() === 2)
  assert.equal(relay.notices(), 2)
})

test('a relay is called stuck when a message is too large a second time at one position', async () => {
  await using relay = await connectTo((socket) => socket.send(Buffer.alloc(6_000_000)))
  relay.start()
  const ends = (): string[] => relay.states.filter((is) => is === 'waiting' || is === 'stuck')
  await eventually(() => ends().length >= 2)
  assert.deepEqual(ends().slice(0, 2), ['waiting', 'stuck'])
})
