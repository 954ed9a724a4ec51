/** Readers of Jetstream v1 get what they know, and nothing else, at `/subscribe`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jetstreamV1Dictionary } from '@tributary/zstd-dictionary'
import { CloseReason } from '@tributary/fanout'
import { eventually } from '@tributary/testkit'
import { type LiveArchive, startLiveArchive } from './live-archive.ts'
import { newRow, type RowWish } from './rows.ts'
import { startTestStream } from './start-test-stream.ts'
import { V1Reader } from './v1-reader.ts'

/** Appends rows and gives the last seq. */
function append(live: LiveArchive, wishes: readonly Partial<RowWish>[]): number {
  const before = live.delivery.headSeq
  live.append(wishes.map((wish, i) => newRow({ n: before + i + 1, ...wish })))
  return before + wishes.length
}

async function appendVisible(live: LiveArchive, wishes: readonly Partial<RowWish>[]): Promise<void> {
  const last = append(live, wishes)
  await eventually(() => live.delivery.headSeq === last)
}

/** Creation, update, deletion, identity, account, sync, and a record that was read again. Version 1 knows five of them. */
const everyKind: Partial<RowWish>[] = ([1, 2, 3, 4, 5, 6, 7] as const).map((kind) => ({ kind }))

test('live and replayed messages are the same, in memory and from blocks, with and without compression', async () => {
  await using live = await startLiveArchive({ tailBytesMax: 1 })
  const dictionary = jetstreamV1Dictionary().bytes
  assert.equal(jetstreamV1Dictionary().id, 1_612_007_021)
  using fromTip = await V1Reader.open(live.url, {})
  using packed = await V1Reader.open(live.url, { compress: 'true' }, { dictionary })
  using packedByHeader = await V1Reader.open(
    live.url,
    {},
    { dictionary, headers: { 'socket-encoding': 'zstd' } },
  )
  await appendVisible(live, [...everyKind, {}])
  for (const reader of [fromTip, packed, packedByHeader]) await reader.through(8)
  using fromMemory = await V1Reader.open(live.url, { cursor: 1 })
  await fromMemory.through(8)
  await live.archive.seal()
  using fromBlock = await V1Reader.open(live.url, { cursor: 0, maxMessageSizeBytes: 'x' })
  await fromBlock.through(8)
  assert.deepEqual(fromTip.cursors, [1, 2, 3, 4, 5, 8])
  for (const other of [packed, packedByHeader, fromMemory, fromBlock])
    assert.deepEqual(other.messages, fromTip.messages)
  const [created, , deleted, identity, account] = fromTip.messages
  assert.deepEqual(
    [created?.time_us, created?.commit?.operation, created?.commit?.record],
    [1_000_001, 'create', { n: 1, text: '' }],
  )
  assert.deepEqual(Object.keys(deleted?.commit ?? {}), ['rev', 'operation', 'collection', 'rkey'])
  assert.deepEqual([identity?.kind, account?.kind], ['identity', 'account'])
})

test('filters, sizes and cursors mean what they mean in version 1', async () => {
  await using live = await startLiveArchive()
  await appendVisible(live, [
    {},
    { collection: 'app.a.b.c' },
    { collection: 'app.b.c', did: 'did:plc:b' },
    { kind: 4, did: 'did:plc:b' },
    { kind: 5 },
    { payloadBytes: 5000 },
    { collection: 'app.a.bc', did: 'did:plc:b' },
    { kind: 4 },
  ])
  const read = async (query: Parameters<typeof V1Reader.open>[1], last = 8): Promise<number[]> => {
    using reader = await V1Reader.open(live.url, query)
    await reader.through(last)
    return reader.cursors
  }
  assert.deepEqual(await read({ cursor: 1, wantedCollections: 'app.a.b' }), [1, 4, 5, 6, 8])
  assert.deepEqual(
    await read({ cursor: 1, wantedCollections: ['app.a.*', 'app.a.b'] }),
    [1, 2, 4, 5, 6, 7, 8],
  )
  assert.deepEqual(await read({ cursor: 1, wantedCollections: ['*.*', '.*'] }), [4, 5, 8])
  assert.deepEqual(await read({ cursor: 1, wantedDids: 'did:plc:b' }, 7), [3, 4, 7])
  assert.deepEqual(
    await read({ cursor: 1, wantedCollections: 'app.b.c', wantedDids: ['did:plc:b', 'did:plc:b'] }, 4),
    [3, 4],
  )
  assert.deepEqual(await read({ cursor: 4, maxMessageSizeBytes: 5000 }), [4, 5, 7, 8])
  assert.deepEqual(await read({ cursor: 6, maxMessageSizeBytes: 2 ** 32 }), [6, 7, 8])
  // Older than everything: from the first event. Of the future, empty, or ignored: from now.
  assert.deepEqual(await read({ cursor: 0 }), [1, 2, 3, 4, 5, 6, 7, 8])
  for (const [i, cursor] of ['9000', String(Date.now() * 1000 + 1e12), '9'.repeat(19), ''].entries()) {
    using reader = await V1Reader.open(live.url, { cursor, requireHello: 'TRUE' })
    append(live, [{}])
    await reader.through(9 + i)
    assert.deepEqual(reader.cursors, [9 + i])
  }
})

test('a time is a cursor, and a seq below what is replayed begins at the floor without a word', async () => {
  await using live = await startLiveArchive({ lookBackMs: 1 })
  const micros = Date.now() * 1000
  await appendVisible(
    live,
    [1, 2].map((i) => ({ witnessedAt: micros + i })),
  )
  await live.archive.seal()
  await appendVisible(
    live,
    [3, 4].map((i) => ({ witnessedAt: micros + i })),
  )
  await live.archive.seal()
  await appendVisible(
    live,
    [5, 6].map((i) => ({ witnessedAt: micros + i })),
  )
  await eventually(() => Date.now() * 1000 > micros + 5000)
  const cursors: [string, number[]][] = [
    ['1', [3, 4, 5, 6]],
    ['4', [4, 5, 6]],
    [String(micros + 1), [3, 4, 5, 6]],
    [String(micros + 4), [4, 5, 6]],
  ]
  for (const [cursor, wanted] of cursors) {
    using reader = await V1Reader.open(live.url, { cursor })
    await reader.through(6)
    assert.deepEqual(reader.cursors, wanted, cursor)
  }
})

test('an options_update replaces the whole filter, and no event is lost or repeated', async () => {
  await using live = await startLiveArchive({ filterBytesPerAddressMax: 2000 })
  using reader = await V1Reader.open(live.url, { wantedCollections: 'app.b.c', wantedDids: 'did:plc:a' })
  let last = append(live, [{}, { collection: 'app.b.c' }])
  await reader.through(last)
  // What is no options_update changes nothing; nor does a binary message.
  reader.socket.send('{"type":"hello","payload":5}')
  reader.socket.send(Buffer.from('not for this endpoint'), { binary: true })
  reader.update({ wantedCollections: ['app.a.*'], maxMessageSizeBytes: 1000 })
  await eventually(
    () => live.delivery.groupCount === 1 && live.fanout.size === 1 && hasGroupOf(live, 'app.a.*'),
  )
  last = append(live, [{ collection: 'app.b.c' }, { payloadBytes: 1000 }, { did: 'did:plc:b' }])
  await reader.through(last)
  assert.deepEqual(reader.cursors, [2, 5])
  // Empty lists want everything.
  reader.update({ wantedCollections: [], wantedDids: null })
  await eventually(() => hasGroupOf(live, undefined))
  last = append(live, [{ payloadBytes: 1000 }])
  await reader.through(last)
  assert.deepEqual(reader.cursors, [2, 5, 6])
  // The bytes of a filter that is gone do not count any more.
  const long = (name: string): string => `did:web:${name}`.padEnd(1500, 'x')
  for (const letter of ['a', 'b', 'c', 'd']) reader.update({ wantedDids: ['x', 'y', letter].map(long) })
  reader.update({ wantedDids: ['a', 'b', 'c', 'd'].map(long) })
  const { code, reason } = await reader.ended()
  assert.deepEqual([code, reason.slice(0, 20)], [1008, 'The filters of your '])
  await eventually(() => live.delivery.groupCount === 0)
  using next = await V1Reader.open(live.url, { wantedDids: ['a', 'b', 'c'].map(long) })
  assert.equal(next.messages.length, 0)
})

/** Whether somebody is subscribed whose first collection is the given one. */
function hasGroupOf({ fanout }: LiveArchive, collection: string | undefined): boolean {
  const sources = fanout
    .subscribers()
    .map(({ id }) => fanout.sourceOf(id) as { filter?: { collections: string[] } })
  return sources.some(({ filter }) => filter !== undefined && filter.collections[0] === collection)
}

test('with requireHello nothing comes before the first options_update, and then everything from the cursor', async () => {
  await using live = await startLiveArchive()
  await appendVisible(live, [{}, {}])
  using waiting = await V1Reader.open(live.url, { requireHello: 'true', cursor: 2 })
  using late = await V1Reader.open(live.url, { requireHello: 'true' })
  using other = await V1Reader.open(live.url)
  await appendVisible(live, [{}, {}])
  await other.through(4)
  waiting.socket.send('{"type":"something_else"}')
  assert.deepEqual([waiting.cursors, late.cursors], [[], []])
  waiting.update({})
  late.update({ wantedDids: ['did:plc:a'] })
  await waiting.through(4)
  assert.deepEqual(waiting.cursors, [2, 3, 4])
  await eventually(() => live.delivery.groupCount === 2)
  append(live, [{}])
  await late.through(5)
  assert.deepEqual(late.cursors, [5])
})

test('a wrong request is refused in plain text, and a wrong text closes with the code of version 1', async () => {
  await using live = await startLiveArchive({ subscribersPerAddressMax: 1 })
  const dids = Array.from({ length: 10_001 }, (_, i) => `did:plc:${i}`)
  const refused: [Parameters<typeof V1Reader.open>[1], RegExp][] = [
    [
      { wantedCollections: 'nothing' },
      /^Error: 400 text\/plain; charset=utf-8 wantedCollections must be NSIDs/,
    ],
    [
      { wantedCollections: dids.slice(0, 101).map((_, i) => `a.b.c${i}`) },
      /^Error: 400 text.* 100 collections/,
    ],
    [{ wantedCollections: dids.map(() => 'a.b.c') }, /^Error: 400 text.* 10000 times/],
    [{ wantedDids: dids }, /^Error: 400 text.* 10000 DIDs/],
    [{ wantedDids: 'nobody' }, /^Error: 400 text.*wantedDids must be DIDs/],
    [{ cursor: '-1' }, /^Error: 400 text.*cursor must be/],
    [{ cursor: 'x' }, /^Error: 400 text.*cursor must be/],
  ]
  for (const [query, expected] of refused)
    await assert.rejects(V1Reader.open(live.url, query), (error) => expected.test(String(error)))
  const plain = await fetch(`${live.url}/subscribe`)
  assert.deepEqual([plain.status, plain.headers.get('content-type')], [426, 'text/plain; charset=utf-8'])

  const closing: [string, number, string][] = [
    ['{', 1007, 'The message is not JSON'],
    ['[]', 1007, 'The message is not a JSON object'],
    ['{"type":"options_update","payload":[]}', 1008, 'payload must be an object'],
    ['{"type":"options_update","payload":{"wantedDids":[5]}}', 1008, 'wantedDids must be a list of texts'],
    [JSON.stringify({ type: 'options_update', payload: { wantedCollections: ['é'.repeat(300)] } }), 1008, ''],
    ['x'.repeat(10_000_001), 1009, ''],
  ]
  for (const [text, code, reason] of closing) {
    using reader = await V1Reader.open(live.url)
    await assert.rejects(V1Reader.open(live.url), /429 text\/plain.*subscriptions open/)
    reader.socket.send(text)
    const closed = await reader.ended()
    assert.equal(closed.code, code, text.slice(0, 60))
    assert.ok(closed.reason.startsWith(reason) && Buffer.byteLength(closed.reason) <= 123)
    assert.deepEqual(reader.messages, [])
    await eventually(() => live.fanout.size === 0)
  }
})

test('hostile texts end their reader alone, and one in fragments is read as one', async () => {
  await using live = await startLiveArchive()
  using bystander = await V1Reader.open(live.url)
  using fragmented = await V1Reader.open(live.url, { requireHello: 'true' })
  const update = '{"type":"options_update","payload":{"wantedDids":["did:plc:b"]}}'
  for (const character of update.slice(0, 50)) fragmented.socket.send(character, { fin: false })
  fragmented.socket.send(update.slice(50), { fin: true })
  const hostile: [(reader: V1Reader) => void, number][] = [
    [({ socket }) => socket.send(Buffer.from([0x22, 0xff, 0x22]), { binary: false }), 1007],
    [({ socket }) => Array.from({ length: 200 }, () => socket.send('{"type":"x"}')), 1008],
    [({ socket }) => Array.from({ length: 100 }, () => socket.send('"', { fin: false })), 1008],
    [({ socket }) => socket.send('['.repeat(10_000_000)), 1007],
    [({ socket }) => socket.send(`[${'[[[]]],'.repeat(1_428_000)}`), 1007],
  ]
  for (const [attack, expected] of hostile) {
    using reader = await V1Reader.open(live.url)
    attack(reader)
    assert.equal((await reader.ended()).code, expected, attack.toString())
  }
  await eventually(() => live.fanout.size === 2 && live.delivery.groupCount === 2)
  const last = append(live, [{}, { did: 'did:plc:b' }])
  for (const reader of [bystander, fragmented]) await reader.through(last)
  assert.deepEqual([bystander.cursors, fragmented.cursors], [[1, 2], [2]])
})

test('a text of ten megabytes replaces the filter, and the texts after it are read after it', async () => {
  await using live = await startLiveArchive()
  using reader = await V1Reader.open(live.url, { requireHello: 'true' })
  const update = (dids: readonly string[]): string =>
    JSON.stringify({ type: 'options_update', payload: { wantedDids: dids } })
  const large = update(
    Array.from({ length: 250_000 }, (_, i) => `did:plc:${String(i % 9999).padStart(24, 'a')}`),
  )
  reader.socket.send(large.padEnd(9_999_999).padStart(10_000_000))
  await eventually(() => dids(live)?.length === 9999)
  reader.socket.send(update(['did:plc:a']).padEnd(1_000_000))
  reader.socket.send(update(['did:plc:b']))
  await eventually(() => dids(live)?.join() === 'did:plc:b')
  const last = append(live, [{}, { did: 'did:plc:b' }])
  await reader.through(last)
  assert.deepEqual(reader.cursors, [2])
})

/** The DIDs that the only reader wants. */
function dids({ fanout }: LiveArchive): readonly string[] | undefined {
  const [id] = fanout.subscribers().map((each) => each.id)
  const source = fanout.sourceOf(id ?? 0) as { filter?: { dids: readonly string[] } } | undefined
  return source?.filter?.dids
}

test('a reader that is ended is told by the close frame alone', async () => {
  await using live = await startLiveArchive()
  for (const query of [{}, { requireHello: 'true' }]) {
    using reader = await V1Reader.open(live.url, query)
    await eventually(() => live.fanout.size === 1)
    const [subscriber] = live.fanout.subscribers()
    live.fanout.disconnect(
      subscriber?.id ?? 0,
      new CloseReason(1008, 'Disconnected', 'The operator ended it'),
    )
    assert.deepEqual(await reader.ended(), { code: 1008, reason: 'The operator ended it' })
    assert.deepEqual(reader.messages, [])
    await eventually(() => live.fanout.size === 0)
  }
})

test('without the setting nothing is at /subscribe', async () => {
  await using stream = await startTestStream({ compat: 'off' })
  assert.equal((await fetch(`${stream.url}/subscribe`)).status, 404)
  await assert.rejects(V1Reader.open(stream.url), /^Error: 404/)
})
