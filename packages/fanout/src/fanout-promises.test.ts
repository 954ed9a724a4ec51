/** Promises of the fan-out at the moments at which they are easy to break. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { BatchBuffer } from './batch-buffer.ts'
import { frameMessage, type CatchUpSource, type CloseReason } from './index.ts'
import { connectBare } from './bare-consumer.ts'
import { range, readThrough, startFront, startGroup } from './start-front.ts'

/** All messages there are, each at the place of its seq. */
const sourceOf = (all: readonly Buffer[]): CatchUpSource => ({
  headSeq: () => all.length,
  read: (afterSeq) => ({ frames: all.slice(afterSeq), lastSeq: all.length }),
})

const message = (seq: number, size = 0): Buffer => frameMessage('text', Buffer.from(String(seq).padEnd(size)))

test('a reader at any position, at the edge of what memory holds too, misses nothing and gets nothing twice', async () => {
  await using front = await startFront()
  const total = 60
  for (let seq = 1; seq <= total; seq++) {
    front.write(1000)
    await front.log.flush()
  }
  const inMemory = range(0, total).filter((seq) => front.log.readMemory(seq, 1) !== undefined)
  assert.ok(inMemory.length > 5 && inMemory.length < 30, 'memory holds some of it')
  await Promise.all(
    range(0, total - 1).map(async (cursor) => {
      const socket = new WebSocket(`${front.url}/?cursor=${cursor}`)
      assert.deepEqual(await readThrough(socket, total), range(cursor + 1, total))
      socket.terminate()
    }),
  )
})

test('what is published right before a flush comes once and in order, to readers that join in between, too', async () => {
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all))
  let through = 0
  const publishRest = (): void => {
    front.group.publish(all.slice(through), all.length)
    through = all.length
  }
  const total = 400
  const reads: Promise<void>[] = []
  while (all.length < total) {
    all.push(message(all.length + 1))
    front.fanout.publishLater(publishRest)
    // So many that there is a time between two flushes.
    if (all.length % 20 === 0 && all.length < total) {
      const cursor = Math.max(0, all.length - 30)
      const socket = new WebSocket(`${front.url}/?cursor=${cursor}`)
      reads.push(readThrough(socket, total).then((seqs) => assert.deepEqual(seqs, range(cursor + 1, total))))
    }
    await nextTurn()
  }
  await Promise.all(reads)
})

const flushes = { 'more than its socket holds': { size: 20_000, count: 8 }, little: { size: 2500, count: 2 } }
for (const [what, { size, count }] of Object.entries(flushes))
  test(`bytes that a slow socket still holds stay what they were while others are sent ${what} at a time`, async () => {
    const all: Buffer[] = []
    await using front = await startGroup(sourceOf(all))
    const fast = new WebSocket(front.url)
    const slow = new WebSocket(front.url)
    await Promise.all([once(fast, 'open'), once(slow, 'open')])
    slow.pause()
    // More than the kernel keeps for a socket.
    const total = Math.ceil(32_000_000 / size / count) * count
    let seen = 0
    fast.on('message', (data: Buffer) => (seen = Number(data.toString())))
    // Several messages in each flush, so that they are joined in the buffer that is used again and again.
    while (all.length < total) {
      const frames = Array.from({ length: count }, (_, i) => message(all.length + i + 1, size))
      all.push(...frames)
      front.group.publish(frames, all.length)
      while (seen < all.length) await nextTurn()
    }
    const slowSeqs = readThrough(slow, total)
    slow.resume()
    assert.deepEqual(await slowSeqs, range(1, total))
  })

test('bytes that a slow reader still holds stay what they were while others read', async () => {
  // More than the kernel keeps for a socket, of which each read gives some messages.
  const all = range(1, 12_800).map((seq) => message(seq, 2500))
  await using front = await startGroup({
    headSeq: () => all.length,
    read: (afterSeq) => {
      const frames = all.slice(afterSeq, afterSeq + 25)
      return { frames, lastSeq: afterSeq + frames.length }
    },
  })
  const slow = new WebSocket(`${front.url}/?cursor=0`)
  await once(slow, 'open')
  slow.pause()
  while (front.fanout.subscribers()[0]?.state !== 'draining') await nextTurn()
  const fast = new WebSocket(`${front.url}/?cursor=0`)
  assert.deepEqual(await readThrough(fast, all.length), range(1, all.length))
  const slowSeqs = readThrough(slow, all.length)
  slow.resume()
  // What came before the pause is not among them.
  const seqs = await slowSeqs
  assert.deepEqual(seqs, range(seqs[0] ?? 0, all.length))
})

test('what was read for a reader is free when the kernel has taken all of it, and not before', async () => {
  const total = 4
  let freed = 0
  await using front = await startGroup({
    headSeq: () => total,
    read: (afterSeq) => {
      // More than the kernel keeps for a socket.
      const frames = [message(afterSeq + 1, 16_000_000), message(afterSeq + 2, 1000)]
      const free = (): void => {
        freed++
        for (const frame of frames) frame.fill(0)
      }
      return { frames, lastSeq: afterSeq + 2, free }
    },
  })
  const reader = new WebSocket(`${front.url}/?cursor=0`)
  await once(reader, 'open')
  const seqs = readThrough(reader, total)
  reader.pause()
  while (front.fanout.subscribers()[0]?.state !== 'draining') await nextTurn()
  assert.equal(freed, 0)
  reader.resume()
  assert.deepEqual(await seqs, [1, 2, 3, 4])
  while (front.fanout.subscribers()[0]?.state !== 'live') await nextTurn()
  assert.equal(freed, 2)
})

test('a read that gives a reader nothing is free at once', async () => {
  let freed = 0
  await using front = await startGroup({
    headSeq: () => 5,
    read: (afterSeq) => ({ frames: [], lastSeq: afterSeq + 1, free: () => freed++ }),
  })
  const reader = new WebSocket(`${front.url}/?cursor=0`)
  await once(reader, 'open')
  while (front.fanout.subscribers()[0]?.state !== 'live') await nextTurn()
  assert.equal(freed, 5)
})

test('a buffer that was left keeps its bytes, and holds little more than what was joined in it', () => {
  const batch = new BatchBuffer()
  const joined = [10, 10_000, 60_000, 200_000].map((size) => {
    const bytes = batch.join([Buffer.alloc(size / 2, 1), Buffer.alloc(size / 2, 1)])
    batch.leave()
    return bytes
  })
  for (const size of [10, 10_000, 60_000, 200_000])
    batch.join([Buffer.alloc(size / 2, 2), Buffer.alloc(size / 2, 2)])
  for (const bytes of joined) {
    assert.ok(bytes.every((byte) => byte === 1))
    assert.ok(bytes.buffer.byteLength <= Math.max(16_384, bytes.length * 7), `${bytes.buffer.byteLength}`)
  }
})

test('a reader that joins while messages are pending for others gets each once', async () => {
  const all: Buffer[] = []
  await using front = await startGroup(sourceOf(all))
  // So many readers that a flush right after another one has to wait.
  const readers = Array.from({ length: 60 }, () => new WebSocket(front.url))
  await Promise.all(readers.map(async (reader) => once(reader, 'open')))
  const publish = (): void => {
    all.push(message(all.length + 1))
    front.group.publish(all.slice(-1), all.length)
  }
  const late = new WebSocket(`${front.url}/?cursor=0`)
  const lateSeqs = readThrough(late, 4)
  const readerSeqs = readers.map(async (reader) => readThrough(reader, 4))
  front.beforeSubscribe = () => {
    publish() // is flushed at once
    publish() // waits
    publish()
  }
  await once(late, 'open')
  publish()
  assert.deepEqual(await lateSeqs, [1, 2, 3, 4])
  for (const seqs of await Promise.all(readerSeqs)) assert.deepEqual(seqs, [1, 2, 3, 4])
})

test('live readers read what nobody made for them, once and in order with what was made before and after', async () => {
  const all: Buffer[] = []
  await using front = await startGroup({
    headSeq: () => all.length,
    read: (afterSeq) => ({
      frames: all.slice(afterSeq, afterSeq + 3),
      lastSeq: Math.min(all.length, afterSeq + 3),
    }),
  })
  const readers = Array.from({ length: 20 }, () => new WebSocket(front.url))
  await Promise.all(readers.map(async (reader) => once(reader, 'open')))
  const readerSeqs = readers.map(async (reader) => readThrough(reader, 24))
  const add = (count: number): void => {
    for (let i = 0; i < count; i++) all.push(message(all.length + 1))
  }
  for (let round = 0; round < 3; round++) {
    // The second one is pending when the others come.
    for (let i = 0; i < 2; i++) {
      add(1)
      front.group.publish(all.slice(-1), all.length)
    }
    add(6)
    front.group.publishUnmade(round === 2 ? 0 : all.length - 6)
    if (round === 1) await nextTurn()
  }
  for (const seqs of await Promise.all(readerSeqs)) assert.deepEqual(seqs, range(1, 24))
})

test('the cursor that readers are told at the end covers what they were sent and nothing else', async () => {
  const front = await startFront()
  for (let i = 0; i < 1000; i++) front.write(20_000)
  await front.log.flush()
  const live = new WebSocket(front.url)
  const behind = new WebSocket(`${front.url}/?cursor=0`)
  await Promise.all([once(live, 'open'), once(behind, 'open')])
  behind.pause()
  while (!front.fanout.subscribers().some(({ state }) => state === 'draining')) await nextTurn()
  const texts = [live, behind].map(async (socket) => {
    const found: string[] = []
    socket.on('message', (data: Buffer) => found.push(data.toString('utf8', 0, 200).trim()))
    await once(socket, 'close')
    return found
  })
  for (let i = 0; i < 3; i++) front.write()
  await front.log.flush()
  const closed = front[Symbol.asyncDispose]()
  behind.resume()
  for (const text of await Promise.all(texts)) {
    const [, cursor] = /^ServiceRestart: .*resume with cursor=(\d+)$/.exec(text.at(-1) ?? '') ?? []
    assert.equal(cursor, text.at(-2), JSON.stringify(text.slice(-3)))
  }
  await closed
})

test('a reader that catches up is not ended for its lag, one that stands still is', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const ended: CloseReason[] = []
  const look = (): void => t.mock.timers.tick(1000)
  let position = 0
  await using front = await startGroup(
    {
      headSeq: () => 500,
      read: async (afterSeq) => {
        await nextTurn()
        look()
        position = afterSeq + 1
        return { frames: [message(position)], lastSeq: position }
      },
    },
    { lagMax: 10, stallMs: 4000, pingMs: 1e9, onEnded: (_, reason) => ended.push(reason) },
  )
  const catching = new WebSocket(`${front.url}/?cursor=0`)
  assert.deepEqual(await readThrough(catching, 500), range(1, 500))
  assert.equal(ended.length, 0)

  const standing = startGroup(
    { headSeq: () => 500, read: () => new Promise<never>(() => {}) },
    { lagMax: 10, stallMs: 4000, pingMs: 1e9, onEnded: (_, reason) => ended.push(reason) },
  )
  await using other = await standing
  const socket = new WebSocket(`${other.url}/?cursor=0`)
  await once(socket, 'open')
  look()
  look()
  assert.match(ended[0]?.message ?? '', /^More than 10 events behind/)
})

test('a reader that is paused in the middle of something is not taken for dead', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  await using front = await startFront({ pingMs: 1000, stallMs: 1e9 })
  const paused = new WebSocket(front.url)
  await once(paused, 'open')
  paused.pause()
  const total = 1000
  for (let i = 0; i < total; i++) front.write(20_000)
  await front.log.flush()
  while (front.fanout.subscribers()[0]?.state !== 'draining') await nextTurn()
  for (let pings = 0; pings < 5; pings++) t.mock.timers.tick(1000)
  const seqs = readThrough(paused, total)
  paused.resume()
  assert.deepEqual(await seqs, range(1, total))
})

test('readers that are behind get shares of one bound, so that many of them are given little at a time', async () => {
  const given: number[] = []
  const go = Promise.withResolvers<void>()
  await using front = await startGroup(
    {
      headSeq: () => 1,
      read: async (afterSeq, maxBytes) => {
        await go.promise
        if (afterSeq === -1) given.push(maxBytes)
        return { frames: [], lastSeq: afterSeq + 1 }
      },
    },
    { catchUpBytesMax: 1024 * 1024 },
  )
  // Readers that were live and are gone take nothing from anybody.
  const gone = Array.from({ length: 64 }, () => new WebSocket(front.url))
  await Promise.all(gone.map(async (socket) => once(socket, 'open')))
  for (const socket of gone) socket.terminate()
  while (front.fanout.size > 0) await nextTurn()
  const sockets = Array.from({ length: 64 }, () => new WebSocket(`${front.url}/?cursor=-2`))
  await Promise.all(sockets.map(async (socket) => once(socket, 'open')))
  go.resolve()
  while (given.length < sockets.length) await nextTurn()
  assert.ok(
    given.slice(0, 32).every((bytes) => bytes <= (2 * 1024 * 1024) / sockets.length),
    `${given[0]}`,
  )
})

test('what sockets hold together has a bound: whoever holds most is cut off, and others go on', async (t) => {
  const ended: string[] = []
  const heldBytesMax = 8 * 1024 * 1024
  const chunk = message(1, 1024 * 1024)
  await using front = await startGroup(
    {
      headSeq: () => 1000,
      read: (afterSeq) => ({ frames: [Buffer.from(chunk)], lastSeq: afterSeq + 1 }),
    },
    {
      heldBytesMax,
      networkOf: (address) => address.slice(0, -1),
      onEnded: ({ remoteAddress }, { error }) => ended.push(`${remoteAddress} ${error}`),
    },
  )
  const paused: Socket[] = []
  t.after(() => paused.forEach((socket) => socket.destroy()))
  const join = async (address: string) => {
    const socket = await connectBare(front.port, `/?cursor=0&address=${address}`)
    socket.pause()
    paused.push(socket)
  }
  await join('192.0.2.1')
  for (let i = 0; i < 40; i++) await join(`198.51.100.${i % 10}`)
  const hasAny = (wanted: string): boolean => front.fanout.subscribers().some(({ state }) => state === wanted)
  // A pause may come before the last read.
  while (hasAny('behind')) await nextTurn()
  // Nobody waits for those that were cut off to read why.
  for (let turn = 0; turn < 1000 && hasAny('closed'); turn++) await nextTurn()
  assert.ok(!hasAny('closed'))
  assert.ok(ended.length > 0)
  const held = front.fanout.subscribers().length
  assert.ok(held <= heldBytesMax / chunk.length + 1, `${held} readers hold 1 MB each`)
  assert.ok(
    ended.every((each) => /^198\.51\.100\.\d ConsumerTooSlow$/.test(each)),
    ended.join(),
  )
})
