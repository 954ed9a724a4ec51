import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { WebSocket } from 'ws'
import { CloseReason } from './index.ts'
import { range, readThrough, startFront, startGroup } from './start-front.ts'

test('a reader from any cursor, joining at any moment, sees every later message once, in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ messages: fc.array(fc.nat(3000), { maxLength: 20 }), joins: fc.nat(2) }), {
        minLength: 1,
        maxLength: 10,
      }),
      async (steps) => {
        await using front = await startFront()
        const total = steps.reduce((sum, { messages }) => sum + messages.length, 0) + 1
        const readers: Promise<{ cursor: number; seqs: number[] }>[] = []
        for (const { messages, joins } of steps) {
          for (let i = 0; i < joins; i++) {
            const cursor = Math.floor((front.log.visibleSeq * i) / 2)
            const socket = new WebSocket(`${front.url}/?cursor=${cursor}`)
            readers.push(readThrough(socket, total).then((seqs) => ({ cursor, seqs })))
          }
          for (const size of messages) front.write(size)
          await front.log.flush()
        }
        front.write()
        for (const { cursor, seqs } of await Promise.all(readers))
          assert.deepEqual(seqs, range(cursor + 1, total))
      },
    ),
    { numRuns: 20 },
  )
})

test('a reader that stops reading costs the others nothing, and continues from where it was', async () => {
  await using front = await startFront()
  const fast = new WebSocket(`${front.url}/?cursor=0`)
  const slow = new WebSocket(`${front.url}/?cursor=0`)
  await Promise.all([once(fast, 'open'), once(slow, 'open')])
  slow.pause()
  const total = 1500
  const fastSeqs = readThrough(fast, total)
  for (let i = 0; i < total; i++) {
    front.write(20_000)
    if (i % 50 === 0) await front.log.flush()
  }
  assert.deepEqual(await fastSeqs, range(1, total))
  const [behind] = front.fanout.subscribers().filter(({ lag }) => lag > 0)
  assert.ok(behind && behind.state === 'draining', 'the slow one is behind')
  const slowSeqs = readThrough(slow, total)
  slow.resume()
  assert.deepEqual(await slowSeqs, range(1, total))
})

test('a consumer that takes nothing is ended with ConsumerTooSlow and its cursor', async () => {
  const ended = Promise.withResolvers<CloseReason>()
  await using front = await startFront({ stallMs: 200, onEnded: (_, reason) => ended.resolve(reason) })
  const socket = connect(front.port, '127.0.0.1')
  socket.write(
    'GET /?cursor=0 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  await once(socket, 'data')
  socket.pause()
  for (let i = 0; i < 1000; i++) front.write(20_000)
  await front.log.flush()
  const reason = await ended.promise
  assert.equal(reason.error, 'ConsumerTooSlow')
  assert.equal(reason.code, 1008)
  assert.match(reason.message, /resume with cursor=\d+/)
  socket.destroy()
})

test('a consumer that answers no ping is told so and ended, one that does stays', async () => {
  await using front = await startFront({ pingMs: 100 })
  const dead = new WebSocket(front.url, { autoPong: false })
  const alive = new WebSocket(front.url)
  await Promise.all([once(dead, 'open'), once(alive, 'open')])
  const told = once(dead, 'message')
  const [code] = (await once(dead, 'close')) as [number]
  assert.equal(code, 1008)
  assert.match(String((await told)[0]), /^ConsumerTooSlow: No ping was answered; 0 events behind; /)
  assert.equal(alive.readyState, WebSocket.OPEN)
})

test('an operator can end one consumer, and it learns why', async () => {
  await using front = await startFront()
  const socket = new WebSocket(front.url)
  await once(socket, 'open')
  const told = once(socket, 'message')
  const closed = once(socket, 'close')
  const [subscriber] = front.fanout.subscribers()
  assert.equal(
    front.fanout.disconnect(subscriber?.id ?? 0, new CloseReason(1008, 'Disconnected', 'By the operator')),
    true,
  )
  const text = 'Disconnected: By the operator; 0 events behind; resume with cursor=0'
  assert.equal(String((await told)[0]), text)
  assert.equal((await closed)[0], 1008)
  assert.equal(front.fanout.disconnect(999, new CloseReason(1008, 'Disconnected', '')), false)
})

test('closing tells every consumer the cursor to resume from', async () => {
  const front = await startFront()
  const socket = new WebSocket(`${front.url}/?cursor=0`)
  const first = readThrough(socket, 3)
  for (let i = 0; i < 3; i++) front.write()
  assert.deepEqual(await first, [1, 2, 3])
  const told = once(socket, 'message')
  const closed = once(socket, 'close')
  await front[Symbol.asyncDispose]()
  assert.match(String((await told)[0]), /ServiceRestart: .*resume with cursor=3/)
  assert.equal((await closed)[0], 1012)
})

test('messages from consumers are ignored, or refused where the stream takes none', async () => {
  await using tolerant = await startFront()
  await using strict = await startFront({ clientMessages: 'refuse' })
  const kept = new WebSocket(`${tolerant.url}/?cursor=0`)
  const refused = new WebSocket(strict.url)
  await Promise.all([once(kept, 'open'), once(refused, 'open')])
  kept.send('hello')
  refused.send('hello')
  assert.equal(((await once(refused, 'close')) as [number])[0], 1008)
  const seqs = readThrough(kept, 1)
  tolerant.write()
  assert.deepEqual(await seqs, [1])
})

test('one that falls behind the limit is ended and reads why when it goes on; one that catches up is left alone', async () => {
  const ended = Promise.withResolvers<CloseReason>()
  await using front = await startFront({
    stallMs: 2000,
    lagMax: 100,
    onEnded: (_, reason) => ended.resolve(reason),
  })
  const total = 1500
  for (let i = 0; i < total; i++) front.write(20_000)
  await front.log.flush()
  const slow = new WebSocket(`${front.url}/?cursor=0`)
  const replaying = new WebSocket(`${front.url}/?cursor=0`)
  const told: string[] = []
  slow.on('message', (data: Buffer) => told.push(data.toString('utf8', 0, 200).trim()))
  await once(slow, 'open')
  slow.pause()
  const closed = once(slow, 'close')
  // From then on it has five seconds to read why.
  const resumed = ended.promise.then(() => slow.resume())
  assert.deepEqual(await readThrough(replaying, total), range(1, total))
  await resumed
  assert.equal(((await closed) as [number])[0], 1008)
  const [, lag, cursor] =
    /^ConsumerTooSlow: More than 100 events behind; (\d+) events behind; resume with cursor=(\d+)$/.exec(
      told.at(-1) ?? '',
    ) ?? []
  assert.equal(Number(lag) + Number(cursor), total)
  // What it was sent ends where it is told to resume.
  assert.equal(Number(told.at(-2)), Number(cursor))
  assert.equal(replaying.readyState, WebSocket.OPEN)
})

test('a request that is no handshake is told why', async () => {
  await using front = await startFront()
  const ask = async (lines: string[]): Promise<string> => {
    const socket = connect(front.port, '127.0.0.1')
    socket.write(`${[...lines, 'Host: x', 'Upgrade: websocket', 'Connection: Upgrade'].join('\r\n')}\r\n\r\n`)
    let text = ''
    for await (const chunk of socket) text += String(chunk)
    return text
  }
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
  const version = 'Sec-WebSocket-Version: 13'
  for (const [lines, status] of [
    [['GET / HTTP/1.1', version], '400'],
    [['GET / HTTP/1.1', version, 'Sec-WebSocket-Key: short'], '400'],
    [['GET / HTTP/1.1', key, 'Sec-WebSocket-Version: 7'], '400'],
    [['POST / HTTP/1.1', key, version], '405'],
  ] as const) {
    const answer = await ask([...lines])
    assert.ok(answer.startsWith(`HTTP/1.1 ${status} `), answer)
    assert.match(answer, /\r\n\r\n\{"error":"\w+","message":"[^"]+"\}$/)
  }
})

test('one that floods the stream with pings or messages is ended, and a message that is too large ends only its sender', async () => {
  await using front = await startFront()
  const other = new WebSocket(`${front.url}/?cursor=0`)
  await once(other, 'open')
  for (const send of ['ping', 'send'] as const) {
    const flooding = new WebSocket(front.url)
    const told = once(flooding, 'message')
    const closed = once(flooding, 'close')
    await once(flooding, 'open')
    for (let i = 0; i < 10_001; i++) flooding[send]('x')
    assert.match(String((await told)[0]), /^TooManyMessages: /)
    assert.equal(((await closed) as [number])[0], 1008)
  }
  const large = new WebSocket(`${front.url}/?cursor=0`)
  await once(large, 'open')
  const closed = once(large, 'close')
  large.send(Buffer.alloc(10_000))
  assert.equal(((await closed) as [number])[0], 1009)
  const seqs = readThrough(other, 1)
  front.write()
  assert.deepEqual(await seqs, [1])
})

test('a ping is answered with what it held', async () => {
  await using front = await startFront()
  const socket = new WebSocket(front.url)
  await once(socket, 'open')
  const pong = once(socket, 'pong')
  socket.ping('hello')
  assert.equal(String((await pong)[0]), 'hello')
})

test('readers that are behind take one long read a turn, however many they are, and all come to the head', async (t) => {
  let reads = 0
  let readsOfTurnMax = 0
  const headSeq = 10
  const allAtHead = Promise.withResolvers<void>()
  await using front = await startGroup({
    headSeq: () => headSeq,
    read: (afterSeq) => {
      if (++reads === 12 * headSeq) allAtHead.resolve()
      for (const beganMs = performance.now(); performance.now() - beganMs < 3;);
      return { frames: [], lastSeq: afterSeq + 1 }
    },
  })
  let readsBefore = 0
  let ticking = setImmediate(function tick() {
    readsOfTurnMax = Math.max(readsOfTurnMax, reads - readsBefore)
    readsBefore = reads
    ticking = setImmediate(tick)
  })
  t.after(() => clearImmediate(ticking))
  const sockets = range(1, 12).map((i) => new WebSocket(`${front.url}/?cursor=0&address=192.0.2.${i}`))
  t.after(() => sockets.forEach((socket) => socket.terminate()))
  await allAtHead.promise
  // One before the tick of a turn and one after it.
  assert.ok(readsOfTurnMax <= 2, `${readsOfTurnMax} reads in one turn`)
})
