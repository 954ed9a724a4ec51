/** What a server sends against its own promises costs no memory without bound, and is told. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClientEvent, createStreamClient, type StreamGap, type StreamStatus } from '../src/node.ts'
import { RecentEvents } from '../src/recent-events.ts'
import { did, messageOf, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }

/** Reads live until the cursor is at `throughSeq`. */
async function readLive(server: StreamServer, throughSeq: number, jetstreamVersion: 1 | 2 = 2) {
  const events: ClientEvent[] = []
  const gaps: StreamGap[] = []
  const statuses: StreamStatus[] = []
  const client = createStreamClient({ url: server.url, jetstreamVersion, retry: fast })
  const options = { cursor: 0, onStatus: (status: StreamStatus) => void statuses.push(status) }
  for await (const batch of client.live(options)) {
    events.push(...batch.events)
    gaps.push(...batch.gaps)
    if (batch.cursor >= throughSeq) break
  }
  return { seqs: events.map(({ seq }) => seq), gaps, statuses }
}

function notice(fields: object): string {
  return JSON.stringify({ $type: 'message', payload: { $type: 'x.y#info', ...fields } })
}

test('a live event that comes after a later one is a gap, and the one at the cursor is not', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket, query) => {
    void (async () => {
      const sent = query.get('cursor') === '0' ? [5, 7, 6, 7] : [7, 8]
      for (const seq of sent) socket.send(await messageOf(row(seq)))
      socket.close()
    })()
  }
  const { seqs, gaps, statuses } = await readLive(server, 8)
  assert.deepEqual(seqs, [5, 7, 8])
  assert.deepEqual(gaps, [
    { source: 'live', afterSeq: 5, throughSeq: 6, detail: 'seq 6 came after 7' },
    { source: 'live', afterSeq: 6, throughSeq: 7, detail: 'seq 7 came after 7' },
  ])
  const told = statuses.flatMap((status) => (status.type === 'malformed' ? [status.seq] : []))
  assert.deepEqual(told, [6, 7])
})

test('events that the server cannot read are a gap, and the cursor goes on behind them', async () => {
  await using server = await StreamServer.start()
  const unreadable = {
    name: 'UnreadableEvents',
    message: 'Events 3 to 9 are damaged',
    firstSeq: 3,
    lastSeq: 9,
  }
  server.onSubscriber = (socket, query) => {
    void (async () => {
      if (query.get('cursor') !== '9') socket.send(await messageOf(row(2)))
      // A repaired archive tells it as far as the cursor lets it, and again to who comes again.
      const firstSeq = Math.max(3, Number(query.get('cursor')))
      socket.send(notice({ ...unreadable, firstSeq }))
      if (firstSeq === 9) socket.send(await messageOf(row(10)))
      socket.close()
    })()
  }
  const { seqs, gaps } = await readLive(server, 10)
  assert.deepEqual(seqs, [2, 10])
  assert.deepEqual(gaps, [
    { source: 'live', afterSeq: 2, throughSeq: 9, detail: 'Events 3 to 9 are damaged' },
  ])
})

test('a number that would be a time as a cursor is no seq, and a time of the future none of Jetstream v1', async () => {
  await using server = await StreamServer.start()
  const far = 9_000_000_000_000_000
  const v1 = (micros: number): string =>
    JSON.stringify({ did, time_us: micros, kind: 'identity', identity: { did, seq: 1, time: 't' } })
  server.onSubscriber = (socket) => {
    void (async () => {
      const text = await messageOf(row(3))
      socket.send(text.replace('"seq":3', `"seq":${far}`))
      socket.send(notice({ name: 'Progress', seq: far }))
      socket.send(text)
    })()
  }
  const version2 = await readLive(server, 3)
  assert.deepEqual(version2.seqs, [3])
  assert.deepEqual(
    version2.gaps.map(({ throughSeq, detail }) => [throughSeq, detail]),
    [far, far].map(() => [undefined, 'the event has no seq']),
  )
  const now = Date.now() * 1000
  server.onSubscriber = (socket) => {
    for (const micros of [far, now]) socket.send(v1(micros))
  }
  const version1 = await readLive(server, now, 1)
  assert.deepEqual(version1.seqs, [now])
  assert.deepEqual(
    version1.gaps.map(({ detail }) => detail),
    ['the event has a time of the future'],
  )
  server.intercept = (_method, _request, response) => {
    response.end(JSON.stringify({ plannedThroughSeq: far, sealedTipSeq: far, segments: [] }))
    return true
  }
  const client = createStreamClient({ url: server.url, retry: fast })
  await assert.rejects(client.snapshot().next(), { code: 'ProtocolError' })
})

test('blocks whose seqs do not follow each other end the read', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10), rows(11, 20))
  const [name] = [server.segment(0).name]
  const orders = [
    [1, 0],
    [0, 0],
  ]
  for (const order of orders) {
    server.intercept = (method, _request, response) => {
      if (method !== 'planSnapshot') return false
      const blocks = order.map((index) => ({ first: index, last: index }))
      const segments = [{ name, mode: 'blocks', blocks }]
      response.end(JSON.stringify({ plannedThroughSeq: 20, sealedTipSeq: 20, segments }))
      return true
    }
    const seqs: number[] = []
    const reading = createStreamClient({ url: server.url, retry: fast }).snapshot()
    const read = async (): Promise<void> => {
      for await (const { events } of reading) seqs.push(...events.map(({ seq }) => seq))
    }
    await assert.rejects(read(), { code: 'ProtocolError', message: /begins with seq 1, after/ })
    assert.equal(seqs.length, 10)
  }
})

test('messages are remembered within a bound of characters', () => {
  const recent = new RecentEvents()
  const long = 'x'.repeat(1_000_000)
  recent.beginConnection()
  for (let n = 0; n < 40; n++) recent.hasCome(n, `${n} ${long}`)
  recent.beginConnection()
  const known = Array.from({ length: 40 }, (_, n) => recent.hasCome(n, `${n} ${long}`))
  assert.ok(known.filter(Boolean).length <= 16)
  recent.hasCome(50, 'short')
  recent.beginConnection()
  assert.equal(recent.hasCome(50, 'short'), true)
})

test('a list of segments with pages larger than asked for is not kept', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  const { name } = server.segment(0)
  const entry = (segment: string): object => ({ name: segment, sizeBytes: 1000, eventCount: 10 })
  const totals: (number | undefined)[] = []
  for (const more of [999, 1000]) {
    server.intercept = (method, _request, response) => {
      if (method !== 'listSegments') return false
      const others = Array.from({ length: more }, (_, n) => entry(`seg_${n}`))
      response.end(JSON.stringify({ segments: [entry(name), ...others] }))
      return true
    }
    const onStatus = (status: StreamStatus): void => {
      if (status.type === 'downloading') totals.push(status.totalBytes)
    }
    for await (const _ of createStreamClient({ url: server.url }).snapshot({ onStatus })) continue
  }
  assert.deepEqual(totals, [1000, undefined])
})

test('an answer that comes byte by byte without an end is given up and told', async () => {
  await using server = await StreamServer.start()
  const timers: NodeJS.Timeout[] = []
  server.intercept = (_method, _request, response) => {
    response.write('{"segments":[')
    timers.push(setInterval(() => response.write(' '), 10))
    return true
  }
  const retry = { ...fast, giveUpMs: 300 }
  const reading = createStreamClient({ url: server.url, retry }).snapshot()
  await assert.rejects(reading.next(), { code: 'Unreachable', message: /next to nothing/ })
  for (const timer of timers) clearInterval(timer)
})
