/** What a server sends in sizes and depths that no honest one has ends with an error or a gap, before it takes memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import {
  type ClientEvent,
  createStreamClient,
  NdjsonWriter,
  type StreamGap,
  type StreamStatus,
} from '../src/node.ts'
import { createStreamClient as createBrowserClient } from '../src/index.ts'
import { messageOf, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }

async function sealed(...blocks: ReturnType<typeof rows>[]): Promise<StreamServer> {
  const server = await StreamServer.start()
  await server.seal(...blocks)
  return server
}

async function readArchive(server: StreamServer): Promise<ClientEvent[]> {
  const events: ClientEvent[] = []
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: { ...fast, attemptsMax: 2 } })
  for await (const batch of client.snapshot()) events.push(...batch.events)
  return events
}

test('a row that is larger than any commit is malformed, and its neighbours are not', async () => {
  const large = encode({ $type: 'org.impact.claim.activity', title: 'x'.repeat(2_000_000) })
  await using server = await sealed([row(1), row(2, { payload: large }), row(3)])
  const events = await readArchive(server)
  assert.deepEqual(
    events.map(({ seq }) => seq),
    [1, 2, 3],
  )
  const { bytes, malformed } = new NdjsonWriter().lines(events)
  assert.equal(Buffer.from(bytes).toString().trimEnd().split('\n').length, 2)
  assert.match(malformed[0]?.message ?? '', /seq 2 is malformed: it has 20\d{5} bytes/)
  const [, second] = events
  assert.ok(second?.kind === 'commit')
  for (const field of ['record', 'cid'] as const)
    assert.throws(() => second[field], { code: 'MalformedEvent' }, field)
})

test('a live record that is nested without end is a gap, and what follows comes', async () => {
  await using server = await StreamServer.start()
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  server.onSubscriber = (socket) => {
    void (async () => {
      const text = await messageOf(row(1))
      socket.send(text.replace('"activity 1"', deep))
      socket.send(await messageOf(row(2)))
    })()
  }
  const gaps: StreamGap[] = []
  for await (const batch of createStreamClient({ url: server.url }).live({ cursor: 0 })) {
    gaps.push(...batch.gaps)
    assert.doesNotThrow(() => JSON.stringify(batch.events))
    if (batch.cursor === 2) break
  }
  assert.deepEqual(
    gaps.map(({ throughSeq, detail }) => [throughSeq, detail]),
    [[1, 'it is nested over 32 levels']],
  )
})

test('a live message that no honest server sends ends the reading', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket) => {
    void (async () => {
      const text = await messageOf(row(1))
      socket.send(text.replace('activity 1', 'x'.repeat(9 * 1024 * 1024)))
    })()
  }
  const reading = createStreamClient({ url: server.url, retry: fast }).live({ cursor: 0 })
  await assert.rejects(reading.next(), { code: 'ProtocolError', message: /more than 8388608 bytes/ })
})

test('a block is not decompressed further than a client may take', async () => {
  await using server = await sealed(rows(1, 2))
  const { name } = server.segment(0)
  const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58])
  // 128 KiB of one byte.
  const repeated = Buffer.from([0x02, 0x00, 0x10, 0x41])
  const last = Buffer.from([0x03, 0x00, 0x10, 0x41])
  const bomb = Buffer.concat([head, Buffer.alloc(2048 * repeated.length, repeated), last, Buffer.alloc(4)])
  server.intercept = (method, _, response) => {
    const segments = [{ name, mode: 'blocks', blocks: [{ first: 0, last: 0 }] }]
    if (method === 'getBlock') response.end(bomb)
    else if (method === 'planSnapshot')
      response.end(JSON.stringify({ plannedThroughSeq: 2, sealedTipSeq: 2, segments }))
    else return false
    return true
  }
  const details: string[] = []
  for await (const { gaps } of createBrowserClient({ url: server.url, retry: fast }).snapshot())
    details.push(...gaps.map(({ detail }) => detail))
  assert.deepEqual(details, [`block 0 of ${name} does not decode: zstd frame does not decompress`])
})

test('blocks that the header of a segment does not count are no end of it', async () => {
  await using server = await sealed(rows(1, 2), rows(3, 4), rows(5, 6))
  const { bytes } = server.segment(0)
  new DataView(bytes.buffer, bytes.byteOffset).setUint32(14, 1, true)
  await assert.rejects(readArchive(server), { code: 'ProtocolError', message: /1 blocks, and more/ })
})

test('a plan names blocks that a segment can have, and segments by names of their form', async () => {
  for (const segment of [
    { name: 'seg_0000000000.jss', mode: 'blocks', blocks: [{ first: 0, last: 2 ** 40 }] },
    { name: 'x'.repeat(5000), mode: 'segment' },
  ]) {
    await using server = await sealed(rows(1, 2))
    server.intercept = (method, _, response) => {
      if (method !== 'planSnapshot') return false
      response.end(JSON.stringify({ plannedThroughSeq: 2, sealedTipSeq: 2, segments: [segment] }))
      return true
    }
    await assert.rejects(readArchive(server), { code: 'ProtocolError', message: /planSnapshot promises/ })
  }
})

test('of an archive that ends before the cursor nothing is read, whatever its plan names', async () => {
  await using server = await sealed(rows(1, 2))
  const segments = [{ name: server.segment(0).name, mode: 'blocks', blocks: [{ first: 0, last: 0 }] }]
  server.intercept = (method, _, response) => {
    if (method === 'getBlock') response.end('no block')
    else if (method === 'planSnapshot')
      response.end(JSON.stringify({ plannedThroughSeq: 2, sealedTipSeq: 2, segments }))
    else return false
    return true
  }
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: fast })
  const cursors: number[] = []
  for await (const { cursor } of client.snapshot({ afterSeq: 5 })) cursors.push(cursor)
  assert.deepEqual(cursors, [])
})

test('what cannot be read before anything has a seq is told with the first event', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket) => {
    void (async () => {
      for (let i = 0; i < 300; i++) socket.send(`{"bad":${i}}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
      socket.send(await messageOf(row(7)))
    })()
  }
  const reading = createStreamClient({ url: server.url }).live()
  const { value } = await reading.next()
  assert.ok(value)
  assert.deepEqual([value.cursor, value.events.length, value.gaps.length], [7, 1, 100])
  assert.match(value.gaps.at(-1)?.detail ?? '', /many more/)
  await reading.return()
})

test('a server that has more to send and only shows that it lives is given up', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 5))
  server.onSubscriber = (socket) => {
    const pings = setInterval(() => socket.ping(), 20)
    socket.on('close', () => clearInterval(pings))
  }
  const client = createStreamClient({ url: server.url, retry: { ...fast, giveUpMs: 200 } })
  await assert.rejects(client.replay({ throughSeq: 5 }).next(), {
    code: 'Unreachable',
    message: /sends nothing/,
  })
  server.onSubscriber = (socket) => {
    const notices = setInterval(() => socket.send('{"$type":"message","payload":{"$type":"a.b#info"}}'), 20)
    socket.on('close', () => clearInterval(notices))
  }
  await assert.rejects(client.replay({ throughSeq: 5 }).next(), { code: 'Stalled' })
})

test('statuses of a reading that is left before it has begun end', async () => {
  const reading = createStreamClient({ url: 'http://127.0.0.1:1' }).live()
  const statuses: StreamStatus[] = []
  const watching = (async () => {
    for await (const status of reading.statuses()) statuses.push(status)
  })()
  await reading.return()
  await watching
  assert.deepEqual([statuses, reading.stats().state], [[], 'ended'])
})
