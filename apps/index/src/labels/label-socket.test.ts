import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { eventually } from '@tributary/testkit'
import { WebSocketServer } from 'ws'
import { openLabelSocket } from './label-socket.ts'

test('a labeler whose messages are not taken is not read any further, and nothing is lost', async () => {
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens
  const count = 100
  const message = Buffer.alloc(1_000_000)
  let sent = 0
  server.on('connection', (socket) => {
    for (let n = 0; n < count; n++) socket.send(message, () => sent++)
  })
  const stop = new AbortController()
  const options = { allowedPrivateHosts: ['localhost'], signal: stop.signal, onOpen: () => undefined }
  const messages = openLabelSocket(`ws://localhost:${port}`, options)
  // The first one is taken, so it reads.
  assert.equal((await messages.next()).value?.length, message.length)
  let before = -1
  let looksWithout = 0
  await eventually(() => {
    looksWithout = before === sent ? looksWithout + 1 : 0
    before = sent
    return looksWithout === 20
  })
  assert.ok(sent < count / 2, String(sent))
  for (let n = 1; n < count; n++) assert.equal((await messages.next()).value?.length, message.length)
  stop.abort()
  assert.equal((await messages.next()).done, true)
  await new Promise((resolve) => server.close(resolve))
})
