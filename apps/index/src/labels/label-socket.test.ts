import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { WebSocketServer } from 'ws'
import { openLabelSocket } from './label-socket.ts'

test('a labeler whose messages are not taken is not read any further, and nothing is lost', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // it listens
  const count = 100
  const message = Buffer.alloc(1_000_000)
  let sentToFirst = 0
  server.on('connection', (socket) => {
    const isFirst = server.clients.size === 1
    for (let n = 0; n < count; n++) socket.send(message, () => isFirst && sentToFirst++)
  })
  const stop = new AbortController()
  const options = { allowedPrivateHosts: ['localhost'], signal: stop.signal, onOpen: () => undefined }
  const url = `ws://localhost:${port}`
  await using messages = openLabelSocket(url, options)
  const take = async (from: typeof messages): Promise<void> =>
    assert.equal((await from.next()).value?.length, message.length)
  // The first one is taken, so it reads. Then a second connection gets all of its messages.
  await take(messages)
  await using taken = openLabelSocket(url, options)
  for (let n = 0; n < count; n++) await take(taken)
  assert.ok(sentToFirst < count / 2, String(sentToFirst))
  // It is not taken for gone meanwhile, though its answers to pings are not read either.
  t.mock.timers.tick(90_000)
  for (let n = 1; n < count; n++) await take(messages)
  stop.abort()
  for (const each of [messages, taken]) assert.equal((await each.next()).done, true)
})
