import assert from 'node:assert/strict'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { eventually } from '@tributary/testkit'
import { WebSocket } from 'ws'
import { EventReader, RefusedError } from './event-reader.ts'
import { flipBit } from './flip-bit.ts'
import { type LiveArchive, type LiveArchiveOptions, startLiveArchive } from './live-archive.ts'
import { newRow, type RowWish } from './rows.ts'

/** An archive with these rows, all of them visible. */
async function archiveHolding(
  wishes: readonly Omit<RowWish, 'n'>[],
  options?: LiveArchiveOptions,
): Promise<LiveArchive> {
  const live = await startLiveArchive(options)
  await appendVisible(live, wishes)
  return live
}

async function appendVisible(live: LiveArchive, wishes: readonly Omit<RowWish, 'n'>[]): Promise<void> {
  const first = live.archive.appendedSeq + 1
  live.append(wishes.map((wish, i) => newRow({ n: first + i, ...wish })))
  await eventually(() => live.delivery.headSeq >= live.archive.appendedSeq)
}

async function refusal(
  url: string,
  search: string,
  headers?: Record<string, string>,
): Promise<[number, string]> {
  try {
    const reader = await EventReader.open(url, new URLSearchParams(search), undefined, headers)
    reader.close()
  } catch (error) {
    if (error instanceof RefusedError) return [error.status, error.body.error]
    throw error
  }
  return assert.fail(`${search} was not refused`)
}

test('without a cursor only what comes from now on is sent', async () => {
  await using live = await archiveHolding([{}, {}])
  using reader = await EventReader.open(live.url)
  await appendVisible(live, [{}])
  await reader.until(() => reader.messages.length > 0)
  assert.deepEqual(reader.seqs, [3])
})

test('a cursor is inclusive, and a message over the size that was asked for is left out', async () => {
  await using live = await archiveHolding([{}, { payloadBytes: 2000 }, {}])
  using all = await EventReader.open(live.url, { cursor: 2 })
  using small = await EventReader.open(live.url, { cursor: 0, maxMessageSizeBytes: 1000 })
  await appendVisible(live, [{ payloadBytes: 2000 }, {}])
  await all.until(() => all.seqs.at(-1) === 5)
  await small.until(() => small.seqs.at(-1) === 5)
  assert.deepEqual(all.seqs, [2, 3, 4, 5])
  assert.deepEqual(small.seqs, [1, 3, 5])
})

test('a damaged block is passed over, and its readers are told which events they miss', async () => {
  const base = 1_700_000_000_000_000
  const rows = [0, 10, 20, 30].map((micros) => ({ witnessedAt: base + micros }))
  await using live = await startLiveArchive({ tailBytesMax: 1 })
  await appendVisible(live, rows.slice(0, 1))
  await live.archive.seal()
  await appendVisible(live, rows.slice(1, 3))
  const sealed = (await live.archive.seal()) ?? assert.fail()
  await appendVisible(live, rows.slice(3))
  await live.archive.seal()
  const [entry] = sealed.blocks
  flipBit(join(live.directory, 'segments', sealed.name), (entry?.offset ?? 0) + 8 + 20)
  const missed = (firstSeq: number) => ['UnreadableEvents', firstSeq, 3]
  const check = async (cursor: number, expected: unknown[]): Promise<void> => {
    using reader = await EventReader.open(live.url, { cursor })
    await reader.until(() => reader.seqs.at(-1) === 4)
    const told = reader.messages.map(({ seq, name, firstSeq, lastSeq }) => seq ?? [name, firstSeq, lastSeq])
    assert.deepEqual(told, expected)
  }
  await check(0, [1, missed(2), 4])
  await check(3, [missed(3), 4])
  await check(base + 10, [missed(2), 4])
  assert.deepEqual(live.unreadableBlocks, [[2, 3]], 'told once')
})

test('kinds, collections and dids are combined, and collections leave markers alone', async () => {
  await using live = await archiveHolding([
    { collection: 'app.a.b' },
    { collection: 'app.a.b.c' },
    { collection: 'app.b.c', did: 'did:plc:b' },
    { kind: 4 },
    { kind: 5, did: 'did:plc:b' },
    { kind: 3, collection: 'app.a.b', did: 'did:plc:b' },
  ])
  const cases: [Parameters<typeof EventReader.open>[1], number[]][] = [
    [{ cursor: 0, kinds: ['commit'] }, [1, 2, 3, 6]],
    [{ cursor: 0, collections: ['app.a.b'] }, [1, 4, 5, 6]],
    [{ cursor: 0, kinds: ['commit'], collections: ['app.a.b', 'app.a.*'] }, [1, 2, 6]],
    [{ cursor: 0, dids: ['did:plc:b'] }, [3, 5, 6]],
    [{ cursor: 0, dids: ['did:plc:b'], collections: ['app.a.*'], kinds: ['commit', 'account'] }, [5, 6]],
  ]
  for (const [query, expected] of cases) {
    using reader = await EventReader.open(live.url, query)
    await reader.until(() => reader.seqs.length === expected.length)
    assert.deepEqual(reader.seqs, expected)
  }
})

test('a cursor ahead of the tip is told so, and continues live', async () => {
  await using live = await archiveHolding([{}])
  using reader = await EventReader.open(live.url, { cursor: 50 })
  await reader.until(() => reader.messages.length === 1)
  assert.equal(reader.messages[0]?.['name'], 'FutureCursor')
  using next = await EventReader.open(live.url, { cursor: 2 })
  await appendVisible(live, [{}])
  await next.until(() => next.messages.length === 1)
  await reader.until(() => reader.messages.length === 2)
  assert.deepEqual([next.seqs, reader.seqs], [[2], [2]])
})

test('a subscriber is told once which collections of its filter nobody watches', async () => {
  await using live = await archiveHolding([{}], { watched: ['app.a.b'] })
  const patterns = ['app.a.b', 'app.x.y', 'app.a.*', 'app.x.*', 'app.a.b.*']
  using reader = await EventReader.open(live.url, { cursor: 9, kinds: ['commit'], collections: patterns })
  await appendVisible(live, [{}])
  await reader.until(() => reader.seqs.length === 1)
  assert.deepEqual(
    reader.messages.map(({ seq, name, collections }) => seq ?? [name, collections]),
    [['FutureCursor', undefined], ['UnwatchedCollections', ['app.x.y', 'app.x.*', 'app.a.b.*']], 2],
  )
  using content = await EventReader.open(live.url, { cursor: 0, collections: ['app.a.b', 'app.a.*'] })
  using all = await EventReader.open(live.url, { cursor: 0 })
  for (const each of [content, all]) {
    await each.until(() => each.seqs.length === 2)
    assert.equal(each.messages.length, 2)
  }
})

test('a subscriber that asks for it is told how far it has come when nothing else comes, and only then', async () => {
  const progressMs = 20
  await using live = await archiveHolding([{}, {}, {}], { progressMs })
  const kinds = ['identity']
  using reader = await EventReader.open(live.url, { cursor: 0, kinds, progress: true })
  using other = await EventReader.open(live.url, { cursor: 0, kinds })
  const told = () => reader.messages.map(({ $type, seq }) => [$type.split('#')[1], seq])
  await reader.until(() => reader.messages.length === 1)
  // A second notice would come in this time.
  await delay(10 * progressMs)
  assert.equal(reader.messages.length, 1, 'told once')
  await appendVisible(live, [{ kind: 4 }])
  await reader.until(() => reader.messages.length === 3)
  await appendVisible(live, [{}, {}])
  await reader.until(() => reader.messages.at(-1)?.seq === 6)
  const expected = [
    ['info', 3],
    ['identity', 4],
    ['info', 4],
  ]
  assert.deepEqual(told().slice(0, 3), expected)
  assert.deepEqual(reader.messages[0]?.['name'], 'Progress')
  assert.deepEqual(other.seqs, [4])
})

test('a subscriber that asks for it is told at once when it has caught up', async () => {
  await using live = await archiveHolding([{}, { kind: 4 }, {}], { progressMs: 3_600_000 })
  using reader = await EventReader.open(live.url, { cursor: 1, kinds: ['identity'], progress: true })
  await reader.until(() => reader.messages.length === 2)
  assert.deepEqual(
    reader.messages.map(({ $type, seq }) => [$type.split('#')[1], seq]),
    [
      ['identity', 2],
      ['info', 3],
    ],
  )
})

test('a time as cursor begins at the first row seen then, in blocks and in memory', async () => {
  const base = 1_700_000_000_000_000
  const wishes = [0, 0, 10, 20, 20].map((micros) => ({ witnessedAt: base + micros }))
  await using live = await archiveHolding(wishes, { tailBytesMax: 1 })
  const startsAt = async (micros: number): Promise<[number | undefined, unknown]> => {
    using reader = await EventReader.open(live.url, { cursor: base + micros })
    await reader.until(() => reader.seqs.length > 0)
    return [reader.seqs[0], reader.messages[0]?.['name']]
  }
  const check = async (): Promise<void> => {
    assert.deepEqual(await startsAt(5), [3, undefined])
    assert.deepEqual(await startsAt(10), [3, undefined])
    assert.deepEqual(await startsAt(20), [4, undefined])
    assert.deepEqual(await startsAt(-1), [1, 'OutdatedCursor'])
  }
  await check()
  await live.archive.seal()
  await check()
})

test('a seq below the look-back is refused with the floor, and the newest sealed segment is never below it', async () => {
  const old = { witnessedAt: 1_700_000_000_000_000 }
  await using live = await archiveHolding([old, old], { lookBackMs: 3_600_000 })
  await live.archive.seal()
  await appendVisible(live, [old, old])
  await live.archive.seal()
  await appendVisible(live, [{}])
  assert.deepEqual(await refusal(live.url, 'cursor=2'), [400, 'CursorTooOld'])
  assert.deepEqual(await refusal(live.url, 'cursor=0'), [400, 'CursorTooOld'])
  using reader = await EventReader.open(live.url, { cursor: 3 })
  await reader.until(() => reader.seqs.length === 3)
  assert.deepEqual(reader.seqs, [3, 4, 5])
})

test('parameters that make no sense are refused before the upgrade', async () => {
  await using live = await startLiveArchive()
  const many = (name: string, count: number): string =>
    Array.from({ length: count }, (_, i) => `${name}=app.a.b${i}`).join('&')
  const wrong = [
    'cursor=-1',
    'cursor=1.5',
    'cursor=x',
    'kinds=post',
    'kinds=commit&kinds=commit&kinds=commit&kinds=commit&kinds=commit',
    'collections=app',
    'collections=app.*',
    'collections=app.a.*.c',
    many('collections', 101),
    'collections=app.a.b&kinds=identity',
    'dids=alice.test',
    'maxMessageSizeBytes=-1',
    'maxMessageSizeBytes=4294967296',
    'wantedCollections=app.a.b',
    'wantedDids=did:plc:a',
    'requireHello=true',
    'compress=true',
  ]
  for (const search of wrong)
    assert.deepEqual(await refusal(live.url, search), [400, 'InvalidRequest'], search)
  assert.deepEqual(await refusal(live.url, '', { 'Socket-Encoding': 'zstd' }), [400, 'InvalidRequest'])
  assert.deepEqual(await refusal(live.url, 'zstdDictionary=1'), [400, 'UnknownZstdDictionary'])
})

test('ten thousand DIDs can be asked for, and not one more', async () => {
  await using live = await archiveHolding([{ did: 'did:plc:wanted' }, {}])
  const dids = Array.from({ length: 9999 }, (_, i) => `did:plc:${String(i).padStart(24, 'a')}`)
  using reader = await EventReader.open(live.url, { cursor: 0, dids: [...dids, 'did:plc:wanted'] })
  await reader.until(() => reader.seqs.length === 1)
  assert.deepEqual(reader.seqs, [1])
  const search = [...dids, 'did:plc:b', 'did:plc:c'].map((did) => `dids=${did}`).join('&')
  assert.deepEqual(await refusal(live.url, search), [400, 'InvalidRequest'])
})

test('the subprotocol is echoed when it is offered, and a message from the client ends the connection', async () => {
  await using live = await startLiveArchive()
  using plain = await EventReader.open(live.url)
  assert.equal(plain.socket.protocol, '')
  using reader = await EventReader.open(live.url, {}, 'xrpc.v1.json')
  assert.equal(reader.socket.protocol, 'xrpc.v1.json')
  assert.equal(reader.socket.extensions, '')
  reader.socket.send('hello')
  assert.equal((await reader.closed).code, 1008)
})

test('subscribers are bounded, in all and by address, and leaving makes room', async () => {
  await using live = await startLiveArchive({ subscribersMax: 3, subscribersPerAddressMax: 2 })
  using first = await EventReader.open(live.url)
  using second = await EventReader.open(live.url)
  assert.deepEqual(await refusal(live.url, ''), [429, 'RateLimitExceeded'])
  first.close()
  await eventually(async () => live.delivery.groupCount === 0 || !(await isRefused(live)))
  second.close()
})

test('the newest subscriber of the address that has most gives way to another address', async () => {
  await using live = await startLiveArchive({ subscribersMax: 3 })
  using first = await EventReader.open(live.url)
  using second = await EventReader.open(live.url)
  using third = await EventReader.open(live.url)
  assert.deepEqual(await refusal(live.url, ''), [503, 'ServiceUnavailable'])
  const url = `${live.url.replace('http', 'ws')}/xrpc/network.social.stream.subscribeEvents`
  const other = new WebSocket(url, { localAddress: '127.0.0.2' })
  await once(other, 'open')
  const { code } = await third.closed
  const { error } = third.messages.at(-1) as { error?: string } // an error message
  assert.deepEqual([code, error], [1013, 'TooManyConsumers'])
  await appendVisible(live, [{}])
  for (const reader of [first, second]) await reader.until(() => reader.seqs.length === 1)
  assert.equal(live.fanout.size, 3)
  other.terminate()
})

/** A DID of so many characters. */
const longDid = (name: string, length = 2000): string => `did:web:${name}`.padEnd(length, 'x')

test('the bytes that the filters of one address take are bounded', async () => {
  await using live = await startLiveArchive({ filterBytesPerAddressMax: 1500 })
  const [first = '', second = ''] = ['a', 'c'].map(
    (name) => `dids=${longDid(name)}&dids=${longDid(`${name}b`)}`,
  )
  using reader = await EventReader.open(live.url, new URLSearchParams(first))
  assert.deepEqual(await refusal(live.url, second), [429, 'RateLimitExceeded'])
  using small = await EventReader.open(live.url, new URLSearchParams('dids=did:plc:c'))
  assert.equal(live.fanout.size, 2)
  reader.close()
  small.close()
})

for (const path of ['xrpc/network.social.stream.subscribeEvents', 'subscribe'])
  test(`/${path}: nothing is read for a time cursor without a place, and few that seek wait`, async (t) => {
    await using live = await archiveHolding([{}], {
      subscribersPerAddressMax: 40,
      filterBytesPerAddressMax: 1,
    })
    const seek = t.mock.method(live.delivery, 'seqWitnessedAt')
    const open = (query: string): WebSocket =>
      new WebSocket(`${live.url.replace('http', 'ws')}/${path}?${query}`)
    const outcome = (socket: WebSocket): Promise<number> =>
      new Promise((resolve) => {
        socket.on('open', () => resolve(101))
        socket.on('unexpected-response', (_request, { statusCode = 0 }) => resolve(statusCode))
        // A socket that is refused, or ended at the close of the server, has told so before.
        socket.on('error', () => {})
      })
    const timeCursor = `cursor=${Date.now() * 1000 - 1}`
    const dids = path === 'subscribe' ? 'wantedDids' : 'dids'
    assert.equal(await outcome(open(`${timeCursor}&${dids}=${longDid('a')}&${dids}=${longDid('b')}`)), 429)
    assert.equal(seek.mock.callCount(), 0)
    const isReleased = Promise.withResolvers<void>()
    seek.mock.mockImplementation(() => isReleased.promise.then(() => 1))
    const statuses: number[] = []
    const seeking = Array.from({ length: 55 }, async () => statuses.push(await outcome(open(timeCursor))))
    await eventually(() => statuses.length === 3)
    assert.deepEqual(statuses, [429, 429, 429], 'two seek, 50 wait, and there is no room for three')
    assert.equal(seek.mock.callCount(), 2)
    // A cursor that is no time, and none at all, wait for nobody.
    for (let i = 0; i < 8; i++) assert.equal(await outcome(open(i % 2 === 0 ? '' : 'cursor=1')), 101)

    isReleased.resolve()
    await Promise.all(seeking)
    assert.equal(statuses.filter((status) => status === 101).length, 32, 'of 40 places 8 were taken')
    const calls = seek.mock.callCount()
    assert.equal(await outcome(open(timeCursor)), 429)
    assert.equal(seek.mock.callCount(), calls)
  })

async function isRefused(live: LiveArchive): Promise<boolean> {
  try {
    const reader = await EventReader.open(live.url)
    reader.close()
    return false
  } catch (error) {
    if (error instanceof RefusedError) return true
    throw error
  }
}

test('a filter stays while anybody is subscribed with it, and costs nothing after that', async (t) => {
  await using live = await startLiveArchive()
  const query = { collections: ['app.a.*'], kinds: ['commit' as const] }
  using first = await EventReader.open(live.url, query)
  using second = await EventReader.open(live.url, query)
  assert.equal(live.delivery.groupCount, 1)
  first.close()
  await eventually(() => live.fanout.size === 1)
  await appendVisible(live, [
    { collection: 'app.a.b' },
    { collection: 'app.b.c' },
    { collection: 'app.a.bc' },
  ])
  await second.until(() => second.seqs.length === 2)
  assert.deepEqual(second.seqs, [1, 3])
  second.close()
  await eventually(() => live.delivery.groupCount === 0)
  using other = await EventReader.open(live.url, { kinds: ['identity'] })
  assert.deepEqual(other.seqs, [])
  const group = live.delivery.join({ ...query, dids: [], maxMessageSizeBytes: 0 })
  live.delivery.leave(group)
  const want = t.mock.method(group, 'want')
  await appendVisible(live, [{ collection: 'app.a.b' }])
  assert.equal(want.mock.callCount(), 0)
})

test('a plain request is told to use a WebSocket, or what the handshake would be refused for', async () => {
  const old = { witnessedAt: 1_700_000_000_000_000 }
  await using live = await archiveHolding([old, old], { lookBackMs: 3_600_000 })
  await live.archive.seal()
  await appendVisible(live, [old, old])
  await live.archive.seal()
  const ask = async (query: string): Promise<[number, string]> => {
    const response = await fetch(`${live.url}/xrpc/network.social.stream.subscribeEvents${query}`)
    const { error } = (await response.json()) as { error: string }
    return [response.status, error]
  }
  assert.deepEqual(await ask(''), [426, 'UpgradeRequired'])
  assert.deepEqual(await ask('?cursor=x'), [400, 'InvalidRequest'])
  assert.deepEqual(await ask('?cursor=1'), [400, 'CursorTooOld'])
})

test('a consumer that is ended is told why and where to go on', async () => {
  await using live = await archiveHolding([{}, {}])
  using reader = await EventReader.open(live.url, { cursor: 0 })
  await reader.until(() => reader.seqs.length === 2)
  await live.fanout.close()
  const { code } = await reader.closed
  assert.equal(code, 1012)
  assert.deepEqual(
    { ...reader.messages.at(-1), message: undefined },
    { $type: 'error', error: 'ServiceRestart', message: undefined },
  )
  assert.match(String(reader.messages.at(-1)?.['message']), /cursor=2/)
})
