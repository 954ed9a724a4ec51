import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { encode } from '@atcute/cbor'
import { create, toString } from '@atcute/cid'
import type { Decompress } from '@tributary/segment'
import { nodeDecompress, packFrame } from '@tributary/segment/node'
import {
  type ClientEvent,
  createStreamClient,
  NdjsonWriter,
  plainEvent,
  type SnapshotOptions,
  type StreamGap,
  type StreamStatus,
} from '../src/node.ts'
import { createStreamClient as createBrowserClient } from '../src/index.ts'
import { blockBodyBytesMax } from '../src/runtime.ts'
import { answerError, did, eventOf, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }

/** Everything that a snapshot gives, with its last cursor and what was reported meanwhile. */
async function read(server: StreamServer, options: SnapshotOptions = {}, download = {}) {
  const statuses: StreamStatus[] = []
  const events: ClientEvent[] = []
  const gaps: StreamGap[] = []
  let cursor = 0
  const client = createStreamClient({ url: server.url, retry: fast, download })
  for await (const batch of client.snapshot({ onStatus: (status) => statuses.push(status), ...options })) {
    assert.equal(batch.live, false)
    assert.ok(batch.cursor >= cursor, 'the cursor goes back')
    events.push(...batch.events)
    gaps.push(...batch.gaps)
    cursor = batch.cursor
  }
  return { events, gaps, seqs: events.map((event) => event.seq), cursor, statuses }
}

async function rewriteThenRefuse(server: StreamServer, response: ServerResponse): Promise<void> {
  await server.rewrite(0, rows(51, 100), rows(101, 200), rows(201, 300))
  answerError(response, 416, 'RangeNotSatisfiable')
}

function at<T>(items: readonly T[], index: number): T {
  const item = items[index]
  if (item === undefined) throw new Error(`there is no item ${index}`)
  return item
}

function seqs(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}

test('a snapshot has every row of every segment, as the live stream would send it', async () => {
  await using server = await StreamServer.start()
  const all = [
    row(1),
    row(2, { kind: 2, indexedAt: 1_700_000_000_500_000 }),
    row(3, { kind: 3, payload: new Uint8Array(0) }),
    row(4, { kind: 7, collection: 'org.impact.collection' }),
  ]
  await server.seal(all.slice(0, 3), all.slice(3))
  const { events, cursor } = await read(server)
  assert.deepEqual(events.map(plainEvent), await Promise.all(all.map(eventOf)))
  assert.deepEqual(JSON.parse(JSON.stringify(events)), await Promise.all(all.map(eventOf)))
  assert.equal(cursor, 4)
  assert.deepEqual(plainEvent(at(events, 0)), {
    kind: 'commit',
    seq: 1,
    did,
    time: '2025-06-15T15:06:40.000001Z',
    rev: '3migo7fijwi2k',
    operation: 'create',
    collection: 'org.impact.claim.activity',
    rkey: 'r1',
    cid: toString(await create(0x71, row(1).payload)),
    record: { $type: 'org.impact.claim.activity', title: 'activity 1' },
  })
})

test('segments come in parts, in order, each part under the condition that the file is the same', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 200), rows(201, 400))
  await server.seal(rows(401, 500))
  const { seqs: got } = await read(server, {}, { partBytes: 700, parallel: 3 })
  assert.deepEqual(got, seqs(1, 500))
  assert.ok(server.ranges.length > 4)
  assert.equal(
    server.ranges.filter((range) => !range.endsWith('if same')).length,
    2,
    'one probe for each segment',
  )
})

test('a server that knows no ranges sends the whole file', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 300))
  server.intercept = (method, _request, response) => {
    if (method !== 'getSegment') return false
    response.writeHead(200).end(server.segment(0).bytes)
    return true
  }
  assert.deepEqual((await read(server, {}, { partBytes: 500 })).seqs, seqs(1, 300))
})

test('a file that is rewritten while it is downloaded is planned again, and no row comes twice', async () => {
  await using server = await StreamServer.start()
  const blocks = [rows(1, 100), rows(101, 200), rows(201, 300)]
  await server.seal(...blocks)
  let parts = 0
  server.intercept = (method, _request, response) => {
    if (method !== 'getSegment' || ++parts !== 3) return false
    void rewriteThenRefuse(server, response)
    return true
  }
  const { events, statuses } = await read(server, {}, { partBytes: 1200, parallel: 1 })
  const got = events.map((event) => event.seq)
  assert.equal(new Set(got).size, got.length)
  assert.deepEqual(got.slice(-250), seqs(51, 300))
  const retry = statuses.find((status) => status.type === 'reconnecting')
  assert.match(retry?.detail ?? '', /rewritten/)
})

test('a part that breaks off is fetched again from the block where it stopped', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 100), rows(101, 200), rows(201, 300))
  let parts = 0
  server.intercept = (method, _request, response) => {
    if (method !== 'getSegment' || ++parts !== 5) return false
    response.destroy()
    return true
  }
  assert.deepEqual((await read(server, {}, { partBytes: 800, parallel: 2 })).seqs, seqs(1, 300))
  assert.ok(server.requests.some((request) => request.startsWith('getBlock')))
})

test('block ranges are fetched one by one and filtered exactly', async () => {
  await using server = await StreamServer.start()
  server.plansBlocks = true
  const other = { collection: 'app.attested.location' }
  await server.seal(rows(1, 10), rows(11, 20, other), [
    row(21),
    row(22, other),
    row(23, { did: 'did:web:b.example' }),
  ])
  const collections = ['org.impact.*']
  assert.deepEqual((await read(server, { collections })).seqs, [...seqs(1, 10), 21, 23])
  assert.deepEqual((await read(server, { collections, dids: ['did:web:b.example'] })).seqs, [23])
  assert.deepEqual((await read(server, { afterSeq: 5, beforeSeq: 12 })).seqs, seqs(6, 12))
  assert.equal(
    (await read(server, { collections: ['a.b.none'] })).cursor,
    23,
    'the cursor passes what does not match',
  )
})

test('blocks that do not decode are gaps of a batch, and reported', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 3), rows(4, 6), rows(7, 9), rows(10, 12))
  const { frames } = server.segment(0)
  server.plansBlocks = true
  frames[1]?.fill(0, 12)
  frames[3]?.fill(0, 12)
  const { seqs: got, cursor, statuses, gaps } = await read(server)
  assert.deepEqual(got, [1, 2, 3, 7, 8, 9])
  assert.equal(cursor, 12)
  assert.equal(statuses.filter(({ type }) => type === 'malformed').length, 2)
  assert.deepEqual(
    gaps.map(({ source, afterSeq, throughSeq }) => ({ source, afterSeq, throughSeq })),
    [
      { source: 'archive', afterSeq: 3, throughSeq: 6 },
      { source: 'archive', afterSeq: 9, throughSeq: 12 },
    ],
  )
  assert.match(gaps[0]?.detail ?? '', /^block 1 of seg_0000000000.jss does not decode/)
})

test('a row that is not what its kind demands shows it when it is read, and costs that event alone', async () => {
  await using server = await StreamServer.start()
  const identity = encode({ did, seq: 1, time: 't', handle: 'a.example' })
  await server.seal([
    row(1),
    row(2, { payload: new Uint8Array([0xff]) }),
    row(3, { payload: encode('no map') }),
    row(4, { did: 'nobody' }),
    row(5, { collection: 'nothing' }),
    row(6, { kind: 4, collection: '', rkey: '', rev: '', payload: identity }),
    row(7, { kind: 5, collection: '', rkey: '', rev: '', payload: identity }),
    row(8),
    // A map whose only value is no CBOR: some of its JSON is written before that shows.
    row(9, { payload: new Uint8Array([0xa1, 0x61, 0x61, 0xff]) }),
    row(10),
  ])
  const { events } = await read(server)
  assert.equal(events.length, 10)
  const record = (event: ClientEvent): unknown => event.kind === 'commit' && event.record
  assert.throws(() => record(at(events, 1)), { code: 'MalformedEvent', message: /seq 2/ })
  assert.throws(() => record(at(events, 2)), { code: 'MalformedEvent' })
  assert.throws(() => at(events, 3).did, { code: 'MalformedEvent' })
  assert.throws(() => plainEvent(at(events, 4)), { code: 'MalformedEvent' })
  const { bytes, malformed } = new NdjsonWriter().lines(events)
  const lines = Buffer.from(bytes).toString().trimEnd().split('\n')
  assert.deepEqual(
    lines.map((line): unknown => JSON.parse(line)),
    [0, 5, 7, 9].map((index) => plainEvent(at(events, index))),
  )
  assert.equal(malformed.length, 6)
  assert.match(inspect(events[1]), /MalformedEvent|malformed/)
  assert.match(inspect(events[0]), /title: 'activity 1'/)
})

test('lines of JSON are what stringifying the events gives, of every kind and origin', async () => {
  await using server = await StreamServer.start()
  const texts = ['plain', 'quoted "x" \\ \n', 'grüße 👋', '\u2028\u007f', '']
  const marker = { collection: '', rkey: '', rev: '' }
  await server.seal([
    ...texts.map((text, i) => row(i + 1, { payload: encode({ text, list: [1, -2, null, true, { text }] }) })),
    row(10, { kind: 2 }),
    row(11, { kind: 3, payload: new Uint8Array(0) }),
    row(12, { kind: 4, ...marker, payload: encode({ did, seq: 1, time: 't', handle: 'a.example' }) }),
    row(13, { kind: 5, ...marker, payload: encode({ did, seq: 1, time: 't', active: true }) }),
  ])
  const { events } = await read(server)
  const live: ClientEvent = await eventOf(row(14))
  const all = [...events, live]
  const { bytes, malformed } = new NdjsonWriter().lines(all)
  assert.deepEqual(malformed, [])
  assert.equal(Buffer.from(bytes).toString(), all.map((event) => `${JSON.stringify(event)}\n`).join(''))
})

test('an archive whose blocks do not decode is an error, and so is a decoder that does not work', async () => {
  await using server = await StreamServer.start()
  server.plansBlocks = true
  await server.seal(rows(1, 2), rows(3, 4), rows(5, 6), rows(7, 8), rows(9, 10))
  for (const frame of server.segment(0).frames) frame.fill(0, 12)
  await assert.rejects(read(server), { code: 'ArchiveDamaged' })

  await using whole = await StreamServer.start()
  await whole.seal(rows(1, 2))
  const decoders: Decompress[] = [
    () => {
      throw new TypeError('zstd is not loaded')
    },
    (_, bytesMax) => new Uint8Array(bytesMax),
  ]
  for (const decompress of decoders) {
    const client = createBrowserClient({ url: whole.url, apiKey: 'key', decompress })
    await assert.rejects(client.replay().next(), { code: 'DecompressorFailed' })
  }
})

test('fetch is called as a function of its own, and an error of programming is not tried again', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 3))
  // As browsers do.
  function strictFetch(this: unknown, ...args: Parameters<typeof fetch>): Promise<Response> {
    if (this !== undefined && this !== globalThis) throw new TypeError('Illegal invocation')
    return fetch(...args)
  }
  const seqs: number[] = []
  const options = { url: server.url, retry: fast, decompress: nodeDecompress }
  for await (const { events } of createBrowserClient({ ...options, fetch: strictFetch }).snapshot())
    seqs.push(...events.map((event) => event.seq))
  assert.deepEqual(seqs, [1, 2, 3])

  let calls = 0
  const brokenFetch: typeof fetch = () => {
    calls++
    throw new TypeError('Illegal invocation')
  }
  const broken = createStreamClient({ url: server.url, retry: fast, fetch: brokenFetch })
  await assert.rejects(broken.snapshot().next(), { name: 'TypeError' })
  assert.equal(calls, 1)
})

test('after the time that a caller has, the last failure comes out', async () => {
  await using server = await StreamServer.start()
  server.intercept = () => true
  const retry = { ...fast, giveUpMs: 30 }
  const client = createStreamClient({ url: server.url, retry })
  await assert.rejects(client.snapshot().next(), { code: 'Unreachable' })
  await assert.rejects(client.head(), { code: 'Unreachable' })
  server.intercept = (_method, _request, response) => {
    answerError(response, 503, 'ServiceUnavailable')
    return true
  }
  const patient = createStreamClient({ url: server.url, retry: { ...fast, giveUpMs: 2000 } })
  await assert.rejects(patient.snapshot().next(), { code: 'ServiceUnavailable' })
})

test('the address keeps its path, and one of a method is refused with the one to give', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 3))
  const client = createStreamClient({ url: `${server.url}/below/here/`, retry: { attemptsMax: 1 } })
  const paths: string[] = []
  server.intercept = (_method, request) => {
    paths.push(request.url ?? '')
    return false
  }
  await client.snapshot().next()
  assert.equal(paths[0], '/below/here/xrpc/network.social.stream.planSnapshot')
  for (const path of ['/xrpc/network.social.stream.subscribeEvents', '/subscribe']) {
    assert.throws(() => createStreamClient({ url: `wss://stream.example${path}` }), {
      code: 'InvalidRequest',
      message: /give that of the server, https:\/\/stream\.example$/,
    })
  }
  assert.throws(() => createStreamClient({ url: 'https://stream.example/?cursor=1' }), /no \? and no #/)
  assert.throws(() => createStreamClient({ url: server.url, apiKey: 'a key\n' }), /API key/)
})

test('filters are exact over rows of every kind', async () => {
  await using server = await StreamServer.start()
  const marker = {
    collection: '',
    rkey: '',
    rev: '',
    payload: encode({ did, seq: 1, time: 't', active: true }),
  }
  const other = 'did:web:b.example'
  await server.seal([
    row(1),
    row(2, { collection: 'app.attested.location' }),
    // A collection means nothing in a row that is no commit.
    row(3, { ...marker, kind: 4, collection: 'app.attested.location' }),
    row(4, { ...marker, kind: 5, did: other }),
    row(5, { kind: 3, payload: new Uint8Array(0) }),
    row(6, { did: other }),
  ])
  const seqsOf = async (filter: SnapshotOptions): Promise<number[]> => (await read(server, filter)).seqs
  assert.deepEqual(await seqsOf({ collections: ['org.impact.*'] }), [1, 3, 4, 5, 6])
  assert.deepEqual(await seqsOf({ collections: ['app.attested.location'], kinds: ['commit'] }), [2])
  assert.deepEqual(await seqsOf({ kinds: ['identity', 'account'] }), [3, 4])
  assert.deepEqual(await seqsOf({ dids: [other], collections: ['org.impact.*'] }), [4, 6])
})

test('a block that was spoilt on its way is fetched once more', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 3), rows(4, 6))
  server.intercept = (method, _request, response) => {
    if (method !== 'getSegment') return false
    const spoilt = Buffer.from(server.segment(0).bytes)
    spoilt.fill(0, 256 + 8 + 12, 256 + 8 + 20)
    response.writeHead(200).end(spoilt)
    return true
  }
  const { seqs: got, statuses } = await read(server)
  assert.deepEqual(got, seqs(1, 6))
  assert.equal(statuses.filter((status) => status.type === 'malformed').length, 0)
})

test('plan pages are read until the tip of the first, which later pages are bounded by', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  await server.seal(rows(11, 20))
  const inputs: unknown[] = []
  server.intercept = (method, request, response) => {
    if (method !== 'planSnapshot') return false
    void (async () => {
      let text = ''
      for await (const chunk of request) text += String(chunk)
      inputs.push(JSON.parse(text))
      const page = inputs.length - 1
      const name = server.segment(page).name
      const segments = [{ name, mode: 'segment' }]
      const body = { plannedThroughSeq: (page + 1) * 10, sealedTipSeq: 20, segments }
      response.writeHead(200).end(JSON.stringify(body))
    })()
    return true
  }
  assert.deepEqual((await read(server)).seqs, seqs(1, 20))
  assert.deepEqual(inputs, [{}, { afterSeq: 10, beforeSeq: 20 }])
})

test('a plan that does not go on, or contradicts itself, ends the read', async () => {
  await using server = await StreamServer.start()
  const answers = [
    { plannedThroughSeq: 0, sealedTipSeq: 20, segments: [] },
    { plannedThroughSeq: 21, sealedTipSeq: 20, segments: [] },
    { plannedThroughSeq: 5 },
  ]
  for (const answer of answers) {
    server.intercept = (_method, _request, response) => {
      response.writeHead(200).end(JSON.stringify(answer))
      return true
    }
    await assert.rejects(read(server), { name: 'StreamError', code: 'ProtocolError' })
  }
})

test('a missing key ends the read, a busy server is waited for as long as it asks', async () => {
  await using server = await StreamServer.start()
  server.intercept = (_method, _request, response) => {
    answerError(response, 401, 'AuthenticationRequired')
    return true
  }
  await assert.rejects(read(server), { code: 'AuthenticationRequired' })

  let refused = 0
  server.intercept = (_method, _request, response) => {
    if (refused++ > 1) return false
    response.setHeader('retry-after', '0.01')
    answerError(response, 429, 'RateLimitExceeded')
    return true
  }
  await server.seal(rows(1, 2))
  const { seqs: got, statuses } = await read(server)
  assert.deepEqual(got, [1, 2])
  const waits = statuses.flatMap((status) => (status.type === 'reconnecting' ? [status.delayMs] : []))
  assert.deepEqual(waits, [10, 10])
})

test('with a limit of attempts the last failure comes out', async () => {
  await using server = await StreamServer.start()
  server.intercept = (_method, _request, response) => {
    answerError(response, 503, 'ServiceUnavailable')
    return true
  }
  const client = createStreamClient({ url: server.url, retry: { ...fast, attemptsMax: 3 } })
  await assert.rejects(client.snapshot().next(), { code: 'ServiceUnavailable' })
  assert.equal(server.requests.length, 3)
})

test('an empty archive is done at once, and leaving the loop ends the downloads', async () => {
  await using server = await StreamServer.start()
  assert.deepEqual(await read(server), {
    events: [],
    gaps: [],
    seqs: [],
    cursor: 0,
    statuses: [{ type: 'planning', afterSeq: 0 }],
  })
  await server.seal(rows(1, 2000))
  await server.seal(rows(2001, 4000))
  for await (const batch of createStreamClient({ url: server.url }).snapshot()) {
    assert.equal(batch.events.length, 1000)
    break
  }
})

test('large records come in smaller batches', async () => {
  await using server = await StreamServer.start()
  const text = 'x'.repeat(900_000)
  await server.seal(rows(1, 15, { payload: encode({ text }) }), rows(16, 30, { payload: encode({ text }) }))
  const client = createStreamClient({ url: server.url })
  const sizes: number[] = []
  for await (const { events } of client.snapshot()) sizes.push(events.length)
  assert.deepEqual(sizes, [10, 10, 10])
})

test('a block that would grow past what memory should hold is left out', async () => {
  await using server = await StreamServer.start()
  server.plansBlocks = true
  await server.seal(rows(1, 2), rows(3, 4))
  const hostile = await packFrame(new Uint8Array(blockBodyBytesMax + 1))
  server.intercept = (method, request, response) => {
    if (method !== 'getBlock' || !request.url?.endsWith('blockIndex=0')) return false
    response.writeHead(200).end(hostile)
    return true
  }
  const { seqs: got, statuses } = await read(server)
  assert.deepEqual(got, [3, 4])
  assert.match(
    statuses.map((status) => (status.type === 'malformed' ? status.detail : '')).join(''),
    /^block 0 .* announces 268435457 bytes, over 268435456$/,
  )
})

test('a server that heeds no end of the range cannot move the cursor past what was read', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 5), rows(6, 10))
  server.intercept = (method, _request, response) => {
    if (method !== 'planSnapshot') return false
    const segments = [{ name: 'seg_0000000000.jss', mode: 'segment' }]
    response.end(JSON.stringify({ plannedThroughSeq: 10, sealedTipSeq: 10, segments }))
    return true
  }
  const { seqs: got, cursor } = await read(server, { beforeSeq: 7 })
  assert.deepEqual([got, cursor], [seqs(1, 7), 7])
})
