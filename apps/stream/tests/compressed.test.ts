/** Subscribers that ask for compressed messages get the same messages, and nobody else gets anything else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { zstdDecompressSync } from 'node:zlib'
import { encode } from '@atcute/cbor'
import { CloseReason } from '@tributary/fanout'
import { inTime } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { EventDictionary } from '../src/delivery/event-dictionary.ts'
import { recordContent } from '../src/delivery/record-content.ts'
import { jetstreamRendition, ownRendition } from '../src/delivery/rendition.ts'
import { type EventQuery, EventReader, type RefusedError } from './event-reader.ts'
import { type LiveArchive, startLiveArchive } from './live-archive.ts'
import { newRow, type RowWish } from './rows.ts'

const dictionaryPath = '/xrpc/network.social.stream.getZstdDictionary'

/** The dictionary as a reader gets it. */
async function dictionaryOf({ url }: LiveArchive): Promise<{ id: number; bytes: Buffer }> {
  const response = await fetch(url + dictionaryPath)
  assert.equal(response.status, 200)
  const bytes = Buffer.from(await response.arrayBuffer())
  return { id: bytes.readUInt32LE(4), bytes }
}

let n = 0
function append(live: LiveArchive, wishes: readonly Partial<RowWish>[]): void {
  live.append(wishes.map((wish) => newRow({ n: ++n, ...wish })))
}

/** Rows of every kind, of two accounts and three collections, small ones and one above the window of a frame. */
function everyKind(): Partial<RowWish>[] {
  return [
    { kind: 4, did: 'did:plc:b' },
    { kind: 5, did: 'did:plc:b' },
    {},
    { collection: 'app.a.b.c', did: 'did:plc:b', payloadBytes: 900 },
    { kind: 2, collection: 'app.b.c' },
    { payloadBytes: 200_000 },
    { kind: 3 },
    { kind: 7, did: 'did:plc:b' },
  ]
}

test('live and replayed messages are the same with and without compression, under every filter', async () => {
  await using live = await startLiveArchive({ tailBytesMax: 2000 })
  const zstdDictionary = await dictionaryOf(live)
  append(live, everyKind())
  await live.archive.seal()
  append(live, everyKind())
  using shown = await EventReader.open(live.url, { cursor: 0 })
  await shown.until(() => shown.messages.length === 16)
  const sizeOf = (i: number): number =>
    JSON.stringify({ $type: 'message', payload: shown.messages[i] }).length
  const queries: EventQuery[] = [
    {},
    { cursor: 0 },
    { cursor: 5 },
    { cursor: 0, kinds: ['commit'], collections: ['app.a.*'] },
    { cursor: 0, dids: ['did:plc:b'] },
    // By what a message takes before it is compressed, to the byte.
    { cursor: 0, maxMessageSizeBytes: sizeOf(3) },
    { cursor: 0, maxMessageSizeBytes: sizeOf(3) - 1 },
    { maxMessageSizeBytes: sizeOf(3) - 1 },
  ]
  for (const query of queries) {
    using plain = await EventReader.open(live.url, query)
    using compressed = await EventReader.open(live.url, { ...query, zstdDictionary })
    append(live, everyKind())
    append(live, [{ did: 'did:plc:b' }])
    const last = n
    const isDone = ({ seqs }: EventReader): boolean => seqs.at(-1) === last
    await plain.until(() => isDone(plain))
    await compressed.until(() => isDone(compressed))
    assert.deepEqual(compressed.messages, plain.messages, JSON.stringify(query))
    for (const frame of compressed.frames) {
      // Magic, four bytes for the id, and the id behind the window where there is one (RFC 8878, 3.1.1.1).
      assert.equal(frame.readUInt32LE(0), 0xfd2fb528)
      const descriptor = frame[4] ?? 0
      assert.equal(descriptor & 3, 3)
      assert.equal(frame.readUInt32LE((descriptor & 0x20) === 0 ? 6 : 5), zstdDictionary.id)
    }
  }
})

test('all who ask share what was compressed', async () => {
  const dictionary = new EventDictionary()
  const first = await dictionary.compressed(ownRendition)
  assert.equal(await dictionary.compressed(ownRendition), first)
  assert.notEqual(await dictionary.compressed(jetstreamRendition), first)
})

test('large records are compressed one after the other, and readers get them in order with what is before and after', async (t) => {
  await using live = await startLiveArchive({ tailBytesMax: 2000 })
  const zstdDictionary = await dictionaryOf(live)
  using all = await EventReader.open(live.url, { zstdDictionary })
  using few = await EventReader.open(live.url, { zstdDictionary, dids: ['did:plc:b'] })
  append(live, [{}, {}, {}])
  await all.until(() => all.seqs.length === 3)
  await live.archive.seal()
  const frame = t.mock.method(ownRendition, 'frame')
  // As JSON it has 6 MB.
  const payload = encode({ text: '\u0001'.repeat(990_000) })
  const content = Buffer.from(recordContent(payload))
  const dids = ['a', 'a', 'a', 'a', 'b']
  live.append(
    dids.map((name) => ({
      draft: { ...newRow({ n: ++n, did: `did:plc:${name}` }).draft, payload },
      content,
    })),
  )
  let inOneTurn = 0
  for (let before = 0; frame.mock.callCount() < dids.length; before = frame.mock.callCount()) {
    await setImmediate()
    inOneTurn = Math.max(inOneTurn, frame.mock.callCount() - before)
  }
  append(live, [{ did: 'did:plc:b' }])
  await all.until(() => all.seqs.length === 9)
  await few.until(() => few.seqs.length === 2)
  assert.deepEqual(
    [all.seqs, few.seqs],
    [
      [1, 2, 3, 4, 5, 6, 7, 8, 9],
      [8, 9],
    ],
  )
  assert.ok(inOneTurn < dids.length, `${inOneTurn} in one turn`)
  assert.equal(live.delivery.cacheBytes, 0, 'nobody reads what is from before')
})

test('notices, progress and errors are compressed too', async () => {
  await using live = await startLiveArchive({ progressMs: 30 })
  const zstdDictionary = await dictionaryOf(live)
  append(live, [{}, {}])
  await live.archive.seal()
  using reader = await EventReader.open(live.url, {
    cursor: 0,
    collections: ['app.a.b', 'app.not.watched'],
    progress: true,
    zstdDictionary,
  })
  await reader.until(() => reader.messages.length === 4)
  live.fanout.disconnect(1, new CloseReason(1008, 'Disconnected', 'for a test'))
  await reader.closed
  assert.deepEqual(
    reader.messages.map(({ name, seq, error }) => name ?? error ?? seq),
    ['UnwatchedCollections', 1, 2, 'Progress', 'Disconnected'],
  )
})

test('a reader of Jetstream gets its messages compressed with the same dictionary', async () => {
  await using live = await startLiveArchive()
  const { id, bytes } = await dictionaryOf(live)
  append(live, everyKind())
  using own = await EventReader.open(live.url, { cursor: 0 })
  await own.until(() => own.messages.length === 8)
  const method = `${live.url.replace('http', 'ws')}/xrpc/network.bsky.jetstream.subscribeEvents`
  const socket = new WebSocket(`${method}?cursor=0&zstdDictionary=${id}`)
  const messages: unknown[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  socket.on('message', (data: Buffer) => {
    messages.push(JSON.parse(zstdDecompressSync(data, { dictionary: bytes }).toString()))
    if (messages.length === 8) resolve()
  })
  await inTime(promise, () => messages)
  socket.terminate()
  const renamed = own.messages.map((payload) => ({
    $type: 'message',
    payload: { ...payload, $type: payload.$type.replace('network.social.stream', 'network.bsky.jetstream') },
  }))
  assert.deepEqual(messages, renamed)
})

test('an id that is not ours, or none at all, is refused before the upgrade', async () => {
  await using live = await startLiveArchive()
  const { id } = await dictionaryOf(live)
  const refusal = async (search: string): Promise<RefusedError> => {
    try {
      using _ = await EventReader.open(live.url, new URLSearchParams(search))
    } catch (error) {
      return error as RefusedError // the reader is refused with no other
    }
    throw new Error(`${search} was accepted`)
  }
  for (const unknown of [1, id - 1, id + 1, 20260811, 1612007021, 2 ** 32, 2 ** 53 - 1]) {
    const { status, body } = await refusal(`zstdDictionary=${unknown}`)
    assert.deepEqual([status, body.error], [400, 'UnknownZstdDictionary'], String(unknown))
    assert.match(body.message, new RegExp(`\\b${id}\\b`), 'the message names the dictionary that there is')
  }
  const wrong = [
    '0',
    '-1',
    '',
    'x',
    `${id}x`,
    `${id}.5`,
    '1e9',
    ` ${id}`,
    '9'.repeat(400),
    `${id}&zstdDictionary=${id}`,
  ]
  for (const value of wrong) {
    const { status, body } = await refusal(`zstdDictionary=${value}`)
    assert.deepEqual([status, body.error], [400, 'InvalidRequest'], value)
  }
})

test('the dictionary is served to everybody, under both names, and is kept by caches for good', async () => {
  await using live = await startLiveArchive()
  const { id, bytes } = await dictionaryOf(live)
  for (const prefix of ['network.social.stream', 'network.bsky.jetstream']) {
    const ask = (query = '', init: RequestInit = {}): Promise<Response> =>
      fetch(`${live.url}/xrpc/${prefix}.getZstdDictionary${query}`, init)
    const [current, named] = [await ask(), await ask(`?id=${id}`)]
    for (const response of [current, named, await ask('', { method: 'HEAD' })]) {
      assert.equal(response.status, 200)
      assert.equal(response.headers.get('content-type'), 'application/octet-stream')
      assert.equal(response.headers.get('content-length'), String(bytes.length))
      assert.equal(response.headers.get('etag'), `"zstd-dict-${id}"`)
      assert.equal(response.headers.get('cache-control'), 'public, max-age=31536000, immutable')
      assert.equal(response.headers.get('x-zstd-dictionary-id'), String(id))
    }
    for (const response of [current, named])
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), bytes)
    const known = await ask('', { headers: { 'If-None-Match': `"zstd-dict-${id}"` } })
    assert.equal(known.status, 304)
    const other = await ask(`?id=${id + 1}`)
    assert.deepEqual(
      [other.status, ((await other.json()) as { error: string }).error],
      [404, 'DictionaryNotFound'],
    )
    // Nobody may keep the answer that there is none: the next version may have it.
    assert.equal(other.headers.get('cache-control')?.includes('immutable') ?? false, false)
    for (const wrong of ['0', '-1', 'x', '1.5']) assert.equal((await ask(`?id=${wrong}`)).status, 400, wrong)
  }
})
