import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Turns } from '@tributary/rates'
import { ClientFeed } from './client-feed.ts'

/** Turns of the event loop in which there is time for one step. */
function shortTurns(): Turns {
  let nowMs = 0
  return new Turns(() => (nowMs += 6))
}

function feed(turns = new Turns()) {
  const socket = new Socket()
  let read = 0
  socket.on('data', (chunk: Buffer) => (read += chunk.length))
  const feed = new ClientFeed(socket, { turns, bytesMax: 16_384, sliceBytes: 512, framesMax: 3 })
  let tooMany = 0
  feed.onTooMany = () => tooMany++
  return {
    feed,
    send: (bytes: number) => socket.emit('data', Buffer.alloc(bytes)),
    socket,
    read: () => read,
    tooMany: () => tooMany,
  }
}

test('of a chunk that is too much nothing is read, and of what comes after it neither', () => {
  const { send, read, tooMany } = feed()
  send(100)
  send(16_300)
  send(10)
  assert.equal(read(), 100)
  assert.equal(tooMany(), 1)
})

test('what many consumers send at once is read little by little, in turns', async () => {
  const turns = shortTurns()
  const consumers = Array.from({ length: 20 }, () => feed(turns))
  for (const { send } of consumers) send(16_000)
  const readAll = (): number => consumers.reduce((sum, { read }) => sum + read(), 0)
  assert.ok(readAll() <= 1024, `${readAll()} bytes were read in the first turn`)
  let before = readAll()
  while (readAll() < 20 * 16_000) {
    await nextTurn()
    assert.ok(readAll() - before <= 1024, `${readAll() - before} bytes were read in one turn`)
    before = readAll()
  }
})

test('what comes while something waits is read after it, and counted until more is allowed', async () => {
  const { feed: own, send, read, tooMany } = feed(shortTurns())
  send(8000)
  send(8000)
  own.allowMore()
  send(16_000)
  while (read() < 32_000) await nextTurn()
  assert.equal(tooMany(), 0)
})

test('of a consumer that has gone nothing more is read', async () => {
  const { send, read, socket } = feed(shortTurns())
  send(8000)
  const before = read()
  socket.emit('end')
  await nextTurn()
  await nextTurn()
  assert.equal(read(), before)
})
