import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { decodeFrame, parseSegment, type Row } from '@tributary/segment'
import { nodeDecompress } from '@tributary/segment/node'
import { programVersion } from '@tributary/settings'
import { eventually, type ScriptedAccount, startPlc, startScriptedHost } from '@tributary/testkit'
import { answersMax } from '../src/policy/api-keys.ts'
import { EventReader } from './event-reader.ts'
import { apiKey, operate, operatorToken, startTestStream, type TestStream } from './start-test-stream.ts'

const follow = 'app.attested.graph.follow'
const location = 'app.attested.location'

interface Filled extends AsyncDisposable {
  stream: TestStream
  account: ScriptedAccount
  /** Resolves when subscribers can have so many rows. */
  shown(rows: number): Promise<void>
}

/** A stream that reads a host with one account, whose first events are three rows. */
async function startFilled(settings: Parameters<typeof startTestStream>[0] = {}): Promise<Filled> {
  const plc = await startPlc()
  const host = await startScriptedHost({ plcUrl: plc.url })
  const stream = await startTestStream({
    relayUrl: host.url.replace('http', 'ws'),
    verify: 'off',
    ...settings,
  })
  const reader = await EventReader.open(stream.url, { cursor: 0 })
  const account = await host.createAccount()
  return {
    stream,
    account,
    shown: (rows) => reader.until(() => reader.seqs.length >= rows),
    async [Symbol.asyncDispose]() {
      reader.close()
      await stream[Symbol.asyncDispose]()
      await host.stop()
      await plc[Symbol.asyncDispose]()
    },
  }
}

/** A stream with one segment of more bytes than sockets hold, so that a reader that does not read stops its download. */
async function startLarge(): Promise<Filled> {
  const filled = await startFilled({ segmentMegabytesMax: 64 })
  const pieces = 24
  for (let n = 0; n < pieces; n++)
    filled.account.create(follow, { noise: randomBytes(500_000).toString('base64') }, `noise-${n}`)
  await filled.shown(3 + pieces)
  await filled.stream.seal()
  return filled
}

async function plan(stream: TestStream, request: object): Promise<Record<string, unknown>> {
  const response = await stream.archive('planSnapshot', {
    method: 'POST',
    headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(request),
  })
  assert.equal(response.status, 200)
  return (await response.json()) as Record<string, unknown> // by its lexicon
}

async function bytesOf(response: Response): Promise<Buffer> {
  return Buffer.from(await response.arrayBuffer())
}

async function errorOf(response: Response): Promise<[number, string]> {
  const { error } = (await response.json()) as { error: string } // errors have one shape
  return [response.status, error]
}

function summary(rows: readonly Row[]): string[] {
  return rows.map(({ seq, kind, collection, rkey }) => `${seq} ${kind} ${collection}/${rkey}`)
}

const name = 'seg_0000000000.jss'

test('what was sealed is planned, downloaded and read back, whole and by block, and joins the live stream', async () => {
  await using filled = await startFilled()
  const { stream, account } = filled
  assert.deepEqual(await plan(stream, {}), {
    plannedThroughSeq: 0,
    sealedTipSeq: 0,
    segments: [],
    stats: { segmentsExamined: 0, segmentsMatched: 0, blocksMatched: 0, entries: 0 },
  })
  account.create(follow, { n: 1 }, 'a')
  account.create(location, { n: 2 }, 'b')
  await filled.shown(5)
  assert.equal(await stream.seal(), 5)
  account.create(follow, { n: 3 }, 'c')
  await filled.shown(6)

  const planned = await plan(stream, { collections: [follow], kinds: ['commit'] })
  assert.equal(planned['plannedThroughSeq'], 5)
  assert.equal(planned['sealedTipSeq'], 5)
  const response = await stream.archive(`getSegment?name=${name}`)
  const file = await bytesOf(response)
  const segment = parseSegment(file, nodeDecompress)
  assert.deepEqual(planned['segments'], [
    { name, index: 0, checksum: segment.header.checksum, minSeq: 1, maxSeq: 5, mode: 'segment' },
  ])
  assert.equal(response.headers.get('etag'), `"${segment.header.checksum}"`)
  const expected = ['1 4 /', '2 5 /', '3 6 /', `4 1 ${follow}/a`, `5 1 ${location}/b`]
  assert.deepEqual(summary(segment.readBlock(0).rows()), expected)

  const block = await stream.archive(`getBlock?segment=${name}&blockIndex=0`)
  assert.equal(block.headers.get('etag'), `"${segment.header.checksum}:0"`)
  assert.deepEqual(summary(decodeFrame(await bytesOf(block), nodeDecompress).rows()), expected)

  using reader = await EventReader.open(stream.url, { cursor: 6 })
  await reader.until(() => reader.seqs.length === 1)
  assert.deepEqual(reader.seqs, [6])
})

test('a segment is served in parts and not sent again to who has it', async () => {
  await using filled = await startFilled()
  const { stream } = filled
  await filled.shown(3)
  await stream.seal()
  const get = (headers: Record<string, string>): Promise<Response> =>
    stream.archive(`getSegment?name=${name}`, { headers: { Authorization: `Bearer ${apiKey}`, ...headers } })
  const whole = await get({})
  const file = await bytesOf(whole)
  const etag = whole.headers.get('etag') ?? ''
  const modified = whole.headers.get('last-modified') ?? ''
  assert.equal(whole.headers.get('accept-ranges'), 'bytes')
  assert.equal(whole.headers.get('content-type'), 'application/octet-stream')
  assert.equal(whole.headers.get('cache-control'), 'public, no-cache')
  assert.equal(Number(whole.headers.get('content-length')), file.length)

  const part = await get({ Range: 'bytes=10-19' })
  assert.equal(part.status, 206)
  assert.equal(part.headers.get('content-range'), `bytes 10-19/${file.length}`)
  assert.deepEqual(await bytesOf(part), file.subarray(10, 20))
  assert.equal((await get({ Range: 'bytes=0-', 'If-Range': etag })).status, 206)
  assert.equal((await get({ Range: 'bytes=0-', 'If-Range': modified })).status, 206)
  assert.equal((await get({ Range: 'bytes=0-', 'If-Range': '"other"' })).status, 200)
  const outside = await get({ Range: `bytes=${file.length}-` })
  assert.equal(outside.headers.get('content-range'), `bytes */${file.length}`)
  assert.deepEqual(await errorOf(outside), [416, 'InvalidRequest'])

  for (const header of [etag, `"other", W/${etag}`, '*']) {
    const unchanged = await get({ 'If-None-Match': header })
    assert.equal(unchanged.status, 304)
    assert.equal((await bytesOf(unchanged)).length, 0)
  }
  const long = `${'"other",'.repeat(1000)}${etag}`
  assert.equal((await get({ 'If-None-Match': long })).status, 200)
  assert.equal((await get({ 'If-Modified-Since': modified })).status, 304)
  assert.equal((await get({ 'If-None-Match': '"other"', 'If-Modified-Since': modified })).status, 200)
})

test('a page of another origin may read the archive in parts', async () => {
  await using filled = await startFilled()
  const { stream, account } = filled
  account.create(follow, {}, 'a')
  await filled.shown(4)
  await stream.seal()
  const asked = await stream.archive(`getSegment?name=${name}`, {
    method: 'OPTIONS',
    headers: {
      Origin: 'https://page.example',
      'Access-Control-Request-Method': 'GET',
      'Access-Control-Request-Headers': 'authorization, if-range, range',
    },
  })
  assert.equal(asked.status, 204)
  const part = await stream.archive(`getSegment?name=${name}`, {
    headers: { Authorization: `Bearer ${apiKey}`, Range: 'bytes=0-3' },
  })
  assert.equal(part.status, 206)
  const shown = part.headers.get('access-control-expose-headers')?.split(', ') ?? []
  for (const header of ['ETag', 'Content-Range']) assert.ok(shown.includes(header), header)
  const beyond = await stream.archive(`getSegment?name=${name}`, {
    headers: { Authorization: `Bearer ${apiKey}`, Range: 'bytes=999999999-' },
  })
  assert.equal(beyond.status, 416)
  assert.equal(beyond.headers.get('cache-control'), 'no-store')
})

test('every method of the archive needs a key, before anything else is looked at', async () => {
  await using filled = await startFilled({ segmentCacheSeconds: 60 })
  const { stream } = filled
  const requests = [
    'planSnapshot',
    `getSegment?name=${name}`,
    'getSegment',
    'getBlock',
    'listSegments?limit=x',
  ]
  const wrong = [
    undefined,
    '',
    'Bearer',
    'Bearer wrong-key-0123',
    `Basic ${apiKey}`,
    apiKey,
    `Bearer ${operatorToken}`,
  ]
  for (const request of requests) {
    const method = request === 'planSnapshot' ? 'POST' : 'GET'
    for (const authorization of wrong) {
      const headers: Record<string, string> =
        authorization === undefined ? {} : { Authorization: authorization }
      const response = await stream.archive(request, { method, headers })
      assert.equal(response.headers.get('www-authenticate'), 'Bearer')
      assert.deepEqual(
        await errorOf(response),
        [401, 'AuthenticationRequired'],
        `${request} ${authorization}`,
      )
    }
  }
  assert.equal((await stream.archive('listSegments')).status, 200)
  assert.equal(await stream.metric('stream_archive_requests_total'), 1)
})

test('HEAD tells what GET would give, whole and without the bytes', async () => {
  await using filled = await startFilled()
  const { stream } = filled
  await filled.shown(3)
  await stream.seal()
  for (const path of [`getSegment?name=${name}`, `getBlock?segment=${name}&blockIndex=0`]) {
    const ask = (method: string, more: Record<string, string> = {}): Promise<Response> =>
      stream.archive(path, { method, headers: { Authorization: `Bearer ${apiKey}`, ...more } })
    const [get, head] = [await ask('GET'), await ask('HEAD', { Range: 'bytes=1-2' })]
    const told = ({ status, headers }: Response) => [
      status,
      ...['etag', 'content-length', 'content-type', 'last-modified', 'accept-ranges'].map((each) =>
        headers.get(each),
      ),
    ]
    assert.deepEqual(told(head), told(get))
    assert.equal((await bytesOf(head)).length, 0)
    assert.equal((await ask('HEAD', { 'If-None-Match': get.headers.get('etag') ?? '' })).status, 304)
    assert.equal((await stream.archive(path, { method: 'HEAD', headers: {} })).status, 401)
  }
  assert.equal((await stream.archive('getSegment?name=seg_000000000z.jss', { method: 'HEAD' })).status, 401)
  assert.equal((await stream.archive('listSegments', { method: 'HEAD' })).status, 405)
})

test('segments are listed page by page', async () => {
  await using filled = await startFilled()
  const { stream, account } = filled
  for (let n = 0; n < 3; n++) {
    account.create(follow, { n })
    await filled.shown(4 + n)
    await stream.seal()
  }
  const first = (await (await stream.archive('listSegments?limit=2')).json()) as Page
  assert.deepEqual(
    first.segments.map(({ name: segmentName, minSeq, maxSeq }) => [segmentName, minSeq, maxSeq]),
    [
      ['seg_0000000000.jss', 1, 4],
      ['seg_0000000001.jss', 5, 5],
    ],
  )
  const second = (await (await stream.archive(`listSegments?cursor=${first.cursor}`)).json()) as Page
  assert.equal(second.cursor, undefined)
  assert.deepEqual(
    second.segments.map(({ index }) => index),
    [2],
  )
})

interface Page {
  cursor?: string
  segments: { name: string; index: number; minSeq: number; maxSeq: number }[]
}

test('what is not there, and what makes no sense, is answered by name', async () => {
  await using filled = await startFilled()
  const { stream } = filled
  await filled.shown(3)
  await stream.seal()
  const cases: [string, [number, string]][] = [
    ['getSegment?name=seg_0000000009.jss', [404, 'SegmentNotFound']],
    ['getSegment?name=seg_0000000001.jss', [404, 'SegmentNotFound']],
    ['getSegment?name=../state.sqlite', [400, 'InvalidRequest']],
    ['getSegment', [400, 'InvalidRequest']],
    [`getBlock?segment=${name}&blockIndex=1`, [404, 'BlockNotFound']],
    [`getBlock?segment=${name}&blockIndex=-1`, [400, 'InvalidRequest']],
    ['getBlock?segment=seg_0000000009.jss&blockIndex=0', [404, 'SegmentNotFound']],
    ['listSegments?limit=0', [400, 'InvalidRequest']],
    ['listSegments?cursor=abc', [400, 'InvalidRequest']],
  ]
  for (const [path, expected] of cases)
    assert.deepEqual(await errorOf(await stream.archive(path)), expected, path)
  const bad: object[] = [
    { kinds: ['post'] },
    { collections: ['app.*'] },
    { collections: [follow], kinds: ['identity'] },
    { dids: ['alice.test'] },
    { afterSeq: -1 },
    { afterSeq: 5, beforeSeq: 5 },
  ]
  for (const body of bad) {
    const headers = { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' }
    const response = await stream.archive('planSnapshot', {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    assert.deepEqual(await errorOf(response), [400, 'InvalidRequest'], JSON.stringify(body))
  }
  assert.equal((await fetch(`${stream.url}/xrpc/network.social.stream.planSnapshot`)).status, 405)
  assert.equal((await fetch(`${stream.url}/xrpc/network.social.stream.getZstdDictionary`)).status, 200)
})

test('only the holder of the operator token seals, and without a token nobody does', async () => {
  await using filled = await startFilled()
  const seal = (stream: TestStream, authorization: string): Promise<Response> =>
    stream.archive('admin.sealSegment', { method: 'POST', headers: { Authorization: authorization } })
  assert.deepEqual(await errorOf(await seal(filled.stream, `Bearer ${apiKey}`)), [
    401,
    'AuthenticationRequired',
  ])
  await filled.shown(3)
  assert.equal(await filled.stream.seal(), 3)
  assert.equal(await filled.stream.seal(), 0, 'there is nothing more to seal')
  await using open = await startTestStream({ operatorToken: undefined })
  assert.equal((await seal(open, `Bearer ${operatorToken}`)).status, 501)
})

test('health, readiness and metrics are answered', async () => {
  await using filled = await startFilled()
  const { url } = filled.stream
  await filled.shown(3)
  assert.deepEqual(await (await fetch(`${url}/_health`)).json(), {
    status: 'ok',
    version: programVersion(),
  })
  const ready = (await (await fetch(`${url}/ready`)).json()) as { headSeq: number; relay: { state: string } }
  assert.equal(ready.headSeq, 3)
  assert.equal(ready.relay.state, 'connected')
  assert.equal(await filled.stream.metric('stream_rows_total'), 3)
})

test('a data directory is used by one process at a time', async () => {
  await using stream = await startTestStream({})
  await assert.rejects(startTestStream({ dataDirectory: stream.dataDirectory }), {
    name: 'DirectoryInUseError',
  })
})

test('bytes of segments and blocks count for the key that downloads them', async () => {
  await using filled = await startFilled()
  const { stream, account } = filled
  account.create(follow, { n: 1 }, 'a')
  await filled.shown(4)
  await stream.seal()
  const used = async (): Promise<number> => {
    const { keys } = (await operate(stream, 'listKeys')).body as { keys: { bytesLastDay: number }[] } // by its lexicon
    return keys[0]?.bytesLastDay ?? 0
  }
  const whole = await bytesOf(await stream.archive(`getSegment?name=${name}`))
  assert.equal(await used(), whole.length)
  const headers = { Authorization: `Bearer ${apiKey}`, Range: 'bytes=10-19' }
  await bytesOf(await stream.archive(`getSegment?name=${name}`, { headers }))
  assert.equal(await used(), whole.length + 10)
  const block = await bytesOf(await stream.archive(`getBlock?segment=${name}&blockIndex=0`))
  assert.equal(await used(), whole.length + 10 + block.length)
})

test('a download whose key is taken back ends', async () => {
  await using filled = await startLarge()
  const { stream } = filled
  const response = await stream.archive(`getSegment?name=${name}`)
  assert.equal(response.status, 200)
  assert.equal((await operate(stream, 'revokeKey', { id: 1 })).status, 200)
  await assert.rejects(response.arrayBuffer())
})

test('a key downloads so much at a time: one more is refused until a reader is through, or has gone', async () => {
  await using filled = await startLarge()
  const { stream } = filled
  const readers: Response[] = []
  const stop = new AbortController()
  const headers = { Authorization: `Bearer ${apiKey}` }
  const begin = (): Promise<Response> =>
    stream.archive(`getSegment?name=${name}`, { headers, signal: stop.signal })
  for (let n = 0; n < answersMax; n++) readers.push(await begin())
  assert.deepEqual(await errorOf(await begin()), [429, 'RateLimitExceeded'])
  const block = stream.archive(`getBlock?segment=${name}&blockIndex=0`)
  assert.deepEqual(await errorOf(await block), [429, 'RateLimitExceeded'])
  const planned = { method: 'POST', headers: { ...headers, 'Content-Type': 'application/json' }, body: '{}' }
  assert.deepEqual(await errorOf(await stream.archive('planSnapshot', planned)), [429, 'RateLimitExceeded'])
  await readers[0]?.body?.cancel()
  await eventually(async () => {
    const response = await begin()
    await response.body?.cancel()
    return response.status === 200
  })
  await eventually(async () => (await stream.archive('planSnapshot', planned)).status === 200)
  stop.abort()
})
