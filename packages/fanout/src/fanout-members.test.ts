/** What single members of a group are sent, and what is kept of them, at the moments when they change their state. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { clientFrame, connectBare } from './bare-consumer.ts'
import { CloseReason, frameMessage, frameText, type CatchUpSource, type SubscriberInfo } from './index.ts'
import { range, readThrough, startFront, startGroup } from './start-front.ts'

const megabyte = 1024 * 1024
const message = (seq: number, size = 0): Buffer => frameMessage('text', Buffer.from(String(seq).padEnd(size)))

/** All messages there are, each at the place of its seq. */
const sourceOf = (all: readonly Buffer[]): CatchUpSource => ({
  headSeq: () => all.length,
  read: (afterSeq) => ({ frames: all.slice(afterSeq), lastSeq: all.length }),
})

/** Everything that a reader is sent until it is closed, without what pads it. */
async function textsOf(socket: WebSocket): Promise<string[]> {
  const texts: string[] = []
  socket.on('message', (data: Buffer) => texts.push(data.toString('utf8', 0, 200).trim()))
  await once(socket, 'close')
  return texts
}

const stateOf = ({ fanout }: { fanout: { subscribers: () => SubscriberInfo[] } }): string | undefined =>
  fanout.subscribers()[0]?.state

/** A clock for `performance.now`, and timers that run when the test says so. */
function mockTime(t: TestContext): (ms: number) => void {
  t.mock.timers.enable({ apis: ['setInterval'] })
  let nowMs = performance.now()
  t.mock.method(performance, 'now', () => nowMs)
  return (ms) => {
    nowMs += ms
    t.mock.timers.tick(ms)
  }
}

test('a live reader whose socket is full gets nothing until it has room, and then all that came meanwhile', async () => {
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all))
  const reader = new WebSocket(front.url)
  await once(reader, 'open')
  assert.equal(stateOf(front), 'live')
  reader.pause()
  // What is there already is published in two parts.
  const total = 30
  for (let seq = 1; seq <= total; seq++) all.push(message(seq, megabyte))
  front.group.publish(all.slice(0, 20), 20)
  assert.equal(stateOf(front), 'draining')
  const sent = front.fanout.subscribers()[0]?.bytesSent
  front.group.publish(all.slice(20), total)
  assert.equal(front.fanout.subscribers()[0]?.bytesSent, sent)
  const seqs = readThrough(reader, total)
  reader.resume()
  assert.deepEqual(await seqs, range(1, total))
})

test('nothing follows the reason why a reader is ended, though a read for it was under way', async () => {
  const go = Promise.withResolvers<void>()
  await using front = await startGroup({
    headSeq: () => 1,
    read: async () => {
      await go.promise
      return { frames: [frameMessage('text', Buffer.from('too late'))], lastSeq: 1 }
    },
  })
  const socket = await connectBare(front.port, '/?cursor=0')
  let text = ''
  socket.on('data', (data: Buffer) => (text += data.toString('latin1')))
  const [{ id } = { id: 0 }] = front.fanout.subscribers()
  front.fanout.disconnect(id, new CloseReason(1008, 'Disconnected', 'By the operator'))
  go.resolve()
  await nextTurn()
  socket.end()
  await once(socket, 'close')
  assert.match(text, /Disconnected: By the operator/)
  assert.doesNotMatch(text, /too late/)
})

test('whoever subscribed a reader is told once when it is gone, and its group has one member less', async () => {
  await using front = await startGroup(sourceOf([]))
  const sockets = [new WebSocket(front.url), new WebSocket(front.url)]
  await Promise.all(sockets.map(async (socket) => once(socket, 'open')))
  assert.deepEqual([front.group.size, front.left], [2, 0])
  sockets[0]?.terminate()
  while (front.fanout.size > 1) await nextTurn()
  assert.deepEqual([front.group.size, front.left], [1, 1])
})

test('a greeting comes before the first message, and leaves out none', async () => {
  const all = range(1, 3).map((seq) => message(seq))
  await using front = await startGroup(sourceOf(all))
  const reader = new WebSocket(`${front.url}/?cursor=1&greeting=hello`)
  const texts = textsOf(reader)
  await once(reader, 'open')
  while (stateOf(front) !== 'live') await nextTurn()
  await front.fanout.close()
  assert.deepEqual((await texts).slice(0, -1), ['hello', '2', '3'])
})

test('a live reader that is ended gets first what waits to be flushed, and is told the cursor of that', async () => {
  const all: Buffer[] = []
  const ended: number[] = []
  await using front = await startGroup(sourceOf(all), { onEnded: ({ position }) => ended.push(position) })
  // So many readers that a flush right after another one has to wait.
  const readers = Array.from({ length: 20 }, () => new WebSocket(front.url))
  await Promise.all(readers.map(async (reader) => once(reader, 'open')))
  const texts = readers.map(textsOf)
  for (let seq = 1; seq <= 2; seq++) {
    all.push(message(seq))
    front.group.publish(all.slice(-1), seq)
  }
  for (const { id } of front.fanout.subscribers())
    front.fanout.disconnect(id, new CloseReason(1008, 'Disconnected', 'By us'))
  const told = 'Disconnected: By us; 0 events behind; resume with cursor=2'
  for (const text of await Promise.all(texts)) assert.deepEqual(text, ['1', '2', told])
  assert.deepEqual(
    ended,
    readers.map(() => 2),
  )
})

test('a consumer that comes while the service ends is told so', async () => {
  await using front = await startGroup(sourceOf([]))
  front.beforeSubscribe = () => void front.fanout.close()
  const reader = new WebSocket(front.url)
  const [text] = await textsOf(reader)
  assert.equal(text, 'ServiceRestart: The service restarts; 0 events behind; resume with cursor=0')
})

test('what a consumer sends counts between two pings, not in all its life', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const ended: string[] = []
  await using front = await startFront({ pingMs: 1000, onEnded: (_, { error }) => ended.push(error) })
  const socket = await connectBare(front.port)
  let heard = ''
  socket.on('data', (data: Buffer) => (heard += data.toString('latin1')))
  const flood = Buffer.concat(range(1, 80).map(() => clientFrame('text', 'x'.repeat(100))))
  for (let round = 1; round <= 5; round++) {
    socket.write(Buffer.concat([flood, clientFrame('ping', `round ${round}`)]))
    while (!heard.includes(`round ${round}`) && ended.length === 0) await nextTurn()
    t.mock.timers.tick(1000)
  }
  assert.deepEqual(ended, [])
  for (let piece = 1; piece <= 3 && ended.length === 0; piece++) {
    socket.write(Buffer.concat([flood, clientFrame('ping', `piece ${piece}`)]))
    while (!heard.includes(`piece ${piece}`) && ended.length === 0) await nextTurn()
  }
  assert.deepEqual(ended, ['TooManyMessages'])
  socket.destroy()
})

test('nothing more is read of a consumer that has sent too much', async () => {
  const ended = Promise.withResolvers<void>()
  await using front = await startFront({ onEnded: () => ended.resolve() })
  const socket = await connectBare(front.port)
  socket.resume()
  const frame = clientFrame('text', 'x'.repeat(100))
  const flood = Buffer.concat(Array.from({ length: 5000 }, () => frame))
  let taken = 0
  const total = 100
  for (let i = 0; i < total; i++) socket.write(flood, (error) => (taken += error ? 0 : 1))
  await ended.promise
  await new Promise((resolve) => socket.once('close', resolve))
  assert.ok(taken < total / 2, `${taken} of ${total}`)
})

test('a reader that has nothing to take, or still takes something, is not ended for taking nothing', async (t) => {
  const pass = mockTime(t)
  const ended: string[] = []
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all), {
    stallMs: 4000,
    pingMs: 1e9,
    onEnded: ({ remoteAddress }, { error }) => ended.push(`${remoteAddress} ${error}`),
  })
  const [idle, slow] = ['idle', 'slow'].map((name) => new WebSocket(`${front.url}/?address=${name}`))
  assert.ok(idle && slow)
  await Promise.all([once(idle, 'open'), once(slow, 'open')])
  for (let i = 0; i < 10; i++) pass(1000)
  assert.deepEqual(ended, [])
  slow.pause()
  for (let seq = 1; seq <= 30; seq++) all.push(message(seq, megabyte))
  const idleSeqs = readThrough(idle, all.length)
  front.group.publish(all, all.length)
  await idleSeqs
  pass(1000)
  pass(2000)
  assert.deepEqual(ended, [], 'three seconds are not four')
  for (let i = 0; i < 4; i++) pass(1000)
  assert.deepEqual(ended, ['slow ConsumerTooSlow'])
  slow.terminate()
})

test('messages of one group are flushed though another group waits for its turn', async () => {
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all))
  // So many readers that a flush right after another one has to wait.
  const readers = Array.from(
    { length: 20 },
    (_, i) => new WebSocket(`${front.url}/${i < 10 ? '' : '?other'}`),
  )
  await Promise.all(readers.map(async (reader) => once(reader, 'open')))
  const seqs = readers.map(async (reader) => readThrough(reader, 2))
  for (let seq = 1; seq <= 2; seq++) {
    all.push(message(seq))
    for (const group of [front.group, front.other]) group.publish(all.slice(-1), seq)
  }
  for (const read of await Promise.all(seqs)) assert.deepEqual(read, [1, 2])
})

test('a text is framed like its bytes', () => {
  for (const text of [
    '',
    'a'.repeat(125),
    'a'.repeat(126),
    'é'.repeat(63),
    '世🙂'.repeat(20_000),
    'a'.repeat(65_536),
  ])
    assert.deepEqual(frameText(text), frameMessage('text', Buffer.from(text)))
})

test('messages of every length for which the head of a frame changes arrive as they are', async () => {
  const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 65_537]
  await using front = await startGroup(
    sourceOf(lengths.map((length) => frameMessage('binary', Buffer.alloc(length, 1)))),
  )
  const reader = new WebSocket(`${front.url}/?cursor=0`)
  const found: number[] = []
  reader.on('message', (data: Buffer) => found.push(data.length))
  await once(reader, 'open')
  while (stateOf(front) !== 'live') await nextTurn()
  const closed = once(reader, 'close')
  await front.fanout.close({ error: 'Done', message: '' })
  await closed
  assert.deepEqual(found.slice(0, -1), lengths)
})

test('what live readers hold of one message counts once, and more than the bound is not held', async (t) => {
  const pass = mockTime(t)
  const ended: string[] = []
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all), {
    stallMs: 1e9,
    pingMs: 1e9,
    heldBytesMax: 40 * megabyte,
    onEnded: (_, { error }) => ended.push(error),
  })
  const sockets = await Promise.all(range(1, 10).map(async () => connectBare(front.port)))
  for (const socket of sockets) socket.pause()
  all.push(message(1, 20 * megabyte))
  front.group.publish(all, 1)
  pass(1000)
  assert.equal(ended.length, 0, 'ten readers hold one message of 20 MB')
  const more = await Promise.all(range(1, 2).map(async () => connectBare(front.port, '/?other')))
  for (const socket of more) socket.pause()
  all.push(message(2, 30 * megabyte))
  front.other.publish(all.slice(1), 2)
  pass(1000)
  assert.ok(ended.includes('ConsumerTooSlow'), 'and another one of 30 MB')
  for (const socket of [...sockets, ...more]) socket.destroy()
})

test('what readers with other filters hold of one message counts once', async (t) => {
  const pass = mockTime(t)
  const ended: string[] = []
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all), {
    stallMs: 1e9,
    pingMs: 1e9,
    heldBytesMax: 30 * megabyte,
    onEnded: (_, { error }) => ended.push(error),
  })
  const sockets = await Promise.all(range(1, 6).map((n) => connectBare(front.port, n > 3 ? '/?other' : '/')))
  for (const socket of sockets) socket.pause()
  all.push(message(1, 20 * megabyte))
  front.group.publish(all, 1)
  front.other.publish(all, 1)
  pass(1000)
  assert.deepEqual(ended, [])
  assert.ok(front.fanout.subscribers().every(({ state }) => state === 'draining'))
  for (const socket of sockets) socket.destroy()
})

test('what readers that are behind hold of one message counts once, and no one is ended for what others hold', async () => {
  const ended: string[] = []
  const shared = message(1, 8 * megabyte)
  const own = new Set([11, 12])
  await using front = await startGroup(
    {
      headSeq: () => 20,
      read: (afterSeq) => ({
        frames: [own.has(afterSeq) ? Buffer.from(shared) : shared],
        lastSeq: afterSeq + 1,
      }),
    },
    {
      heldBytesMax: 20 * megabyte,
      onEnded: ({ position }, { error }) => ended.push(`${position} ${error}`),
    },
  )
  const sockets: Socket[] = []
  const join = async (afterSeq: number): Promise<void> => {
    const socket = await connectBare(front.port, `/?cursor=${afterSeq}`)
    socket.pause()
    sockets.push(socket)
    while (front.fanout.subscribers().some(({ state }) => state === 'behind')) await nextTurn()
  }
  for (let n = 0; n < 6; n++) await join(0)
  assert.deepEqual(ended, [], 'six readers hold one message of 8 MB')
  await join(11)
  assert.deepEqual(ended, [], 'and another one of 8 MB for itself')
  await join(12)
  assert.deepEqual(ended, ['12 ConsumerTooSlow'], 'the one that began at 11 holds most')
  for (const socket of sockets) socket.destroy()
})

test('what readers have taken, and what those held that are gone, counts no more', async () => {
  const ended: string[] = []
  const chunk = message(1, 4 * megabyte)
  await using front = await startGroup(
    {
      headSeq: () => 20,
      read: (afterSeq) => ({ frames: [Buffer.from(chunk)], lastSeq: afterSeq + 1 }),
    },
    { heldBytesMax: 15 * megabyte, onEnded: (_, { error }) => ended.push(error) },
  )
  for (let i = 0; i < 5; i++) {
    const socket = await connectBare(front.port, '/?cursor=0')
    socket.pause()
    while (stateOf(front) !== 'draining' && ended.length === 0) await nextTurn()
    socket.destroy()
    while (front.fanout.size > 0) await nextTurn()
  }
  const reader = new WebSocket(`${front.url}/?cursor=0`)
  const found: Buffer[] = []
  reader.on('message', (data: Buffer) => found.push(data))
  while (found.length < 20 && ended.length === 0) await nextTurn()
  assert.deepEqual(ended, [])
  reader.terminate()
})

test('what was read for one reader alone, and is freed when it was taken, counts no more', async () => {
  const ended: string[] = []
  await using front = await startGroup(
    {
      headSeq: () => 6,
      read: (afterSeq) => {
        // More than the kernel keeps for a socket.
        const frame = message(afterSeq + 1, 16 * megabyte)
        const { buffer } = frame
        assert.ok(buffer instanceof ArrayBuffer)
        const free = (): void => void buffer.transfer(0)
        return { frames: [frame], lastSeq: afterSeq + 1, free }
      },
    },
    { heldBytesMax: 40 * megabyte, onEnded: (_, { error }) => ended.push(error) },
  )
  const reader = new WebSocket(`${front.url}/?cursor=0`)
  assert.deepEqual(await readThrough(reader, 6), range(1, 6))
  assert.deepEqual(ended, [])
  reader.terminate()
})

test('a reader that was ended, and still holds what it did not take, goes before others', async () => {
  const ended: string[] = []
  const chunk = message(1, 16 * megabyte)
  await using front = await startGroup(
    {
      headSeq: () => 1,
      read: (afterSeq) => ({ frames: [Buffer.from(chunk)], lastSeq: afterSeq + 1 }),
    },
    {
      heldBytesMax: 40 * megabyte,
      clientMessages: 'refuse',
      onEnded: ({ remoteAddress }) => ended.push(remoteAddress),
    },
  )
  const join = async (path: string): Promise<Socket> => {
    const socket = await connectBare(front.port, path)
    socket.pause()
    return socket
  }
  const hostile = [await join('/?cursor=0&address=10.0.0.1'), await join('/?cursor=0&address=10.0.0.1')]
  while (front.fanout.subscribers().some(({ state }) => state === 'behind')) await nextTurn()
  // Who sends one is told why, and has some seconds to read that.
  for (const socket of hostile) socket.write(clientFrame('text', 'x'))
  while (ended.length < 2) await nextTurn()
  const states = (): string[] => front.fanout.subscribers().map(({ state }) => state)
  const honest = await join('/?cursor=0&address=10.0.0.2')
  while (states().at(-1) === 'behind') await nextTurn()
  assert.equal(states().at(-1), 'draining')
  assert.deepEqual(ended, ['10.0.0.1', '10.0.0.1'])
  for (const socket of [...hostile, honest]) socket.destroy()
})

test('what a reader has taken since it was looked at counts no more when another one comes', async () => {
  const ended: string[] = []
  const size = 8 * megabyte
  await using front = await startGroup(
    {
      headSeq: () => 2,
      read: (afterSeq) => ({ frames: [message(afterSeq + 1, size)], lastSeq: afterSeq + 1 }),
    },
    { heldBytesMax: 3.5 * size, onEnded: (_, { error }) => ended.push(error) },
    { highWaterMark: 1.5 * size },
  )
  // Each is sent two messages, and the kernel does not take the first one whole.
  const join = async (): Promise<Socket> => {
    const socket = await connectBare(front.port, '/?cursor=0')
    socket.pause()
    while (front.fanout.subscribers().some(({ state }) => state === 'behind')) await nextTurn()
    return socket
  }
  const first = await join()
  let taken = 0
  first.on('data', ({ length }: Buffer) => {
    taken += length
    if (taken > size) first.pause()
  })
  first.resume()
  while (!first.isPaused()) await nextTurn()
  const second = await join()
  assert.deepEqual(ended, [])
  assert.ok(front.fanout.subscribers().every(({ state }) => state === 'draining'))
  for (const socket of [first, second]) socket.destroy()
})
