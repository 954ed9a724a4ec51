import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type StreamBatch, type StreamClient, createStreamClient, type StreamStatus } from '../src/node.ts'
import { answerError, did, eventOf, messageOf, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }
type Read = (
  client: StreamClient,
  onStatus: (status: StreamStatus) => void,
) => AsyncGenerator<StreamBatch, void>

const replay: Read = (client, onStatus) => client.replay({ onStatus })

const ahead: Read = (client) => client.replay({ cursor: 900 })
const filtered: Read = (client) => client.replay({ collections: ['org.impact.claim.*'], dids: [did] })

/** Reads until the event with `lastSeq` has come. */
async function readThrough(server: StreamServer, lastSeq: number, read: Read = replay) {
  const statuses: StreamStatus[] = []
  const seqs: number[] = []
  const gaps: object[] = []
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: fast })
  for await (const batch of read(client, (status) => statuses.push(status))) {
    seqs.push(...batch.events.map((event) => event.seq))
    gaps.push(...batch.gaps.map(({ source, afterSeq, throughSeq }) => ({ source, afterSeq, throughSeq })))
    assert.ok(batch.cursor >= (seqs.at(-1) ?? 0))
    if (batch.cursor >= lastSeq) break
  }
  return {
    seqs,
    gaps,
    statuses,
    reasons: statuses.flatMap((one) => (one.type === 'reconnecting' ? [one.reason] : [])),
  }
}

function sequence(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}

test('archive and live stream join without a gap or a repetition while rows keep coming', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 50), rows(51, 100))
  await server.append(...rows(101, 120))
  let downloads = 0
  server.intercept = (method) => {
    // What is sealed after the first plan is left to the live stream.
    if (method === 'getSegment' && downloads++ === 0) void server.append(...rows(121, 140))
    return false
  }
  const reading = readThrough(server, 160)
  await server.until(() => server.subscribers.size > 0)
  await server.append(...rows(141, 160))
  const { seqs, statuses } = await reading
  assert.deepEqual(seqs, sequence(1, 160))
  assert.ok(
    server.requests.includes('subscribeEvents?cursor=100&progress=true'),
    'the live stream starts at the cut',
  )
  assert.deepEqual(
    statuses.map((status) => status.type),
    ['planning', 'downloading', 'downloading', 'connecting', 'live'],
  )
  await server.until(() => server.subscribers.size === 0)
})

test('with an empty archive the live stream starts at its beginning', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 3))
  assert.deepEqual((await readThrough(server, 3)).seqs, [1, 2, 3])
  assert.ok(server.requests.includes('subscribeEvents?cursor=0&progress=true'))
})

test('a saved cursor goes on behind the last event, from archive and live', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  await server.append(...rows(11, 14))
  const from = async (cursor: number) =>
    (await readThrough(server, 14, (client, onStatus) => client.replay({ cursor, onStatus }))).seqs
  assert.deepEqual(await from(7), sequence(8, 14))
  assert.deepEqual(await from(12), [13, 14])
})

test('what the look-back reaches is read without a plan, and so without a key', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  await server.append(...rows(11, 14))
  server.intercept = (method, _request, response) => {
    if (method === 'ready') return false
    answerError(response, 401, 'AuthenticationRequired')
    return true
  }
  const read = async (apiKey: string | undefined, cursor: number): Promise<number[]> => {
    const client = createStreamClient({ url: server.url, ...(apiKey !== undefined && { apiKey }) })
    const seqs: number[] = []
    for await (const { events } of client.replay({ cursor, throughSeq: 14 }))
      seqs.push(...events.map(({ seq }) => seq))
    return seqs
  }
  assert.deepEqual(await read(undefined, 0), sequence(1, 14))
  assert.deepEqual(await read(undefined, 6), sequence(7, 14))
  assert.deepEqual(await read('revoked', 6), sequence(7, 14))
  server.refuse = (query) =>
    Number(query.get('cursor')) < 5 ? { status: 400, error: 'CursorTooOld' } : undefined
  await assert.rejects(read(undefined, 2), { code: 'AuthenticationRequired' })
})

test('a replay through a seq ends there, over archive, unsealed rows and notices of progress', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 10))
  await server.append(...rows(11, 14))
  const client = createStreamClient({ url: server.url, apiKey: 'key' })
  const read = async (throughSeq: number, cursor = 0) => {
    const seqs: number[] = []
    let last = cursor
    for await (const { events, cursor: at } of client.replay({ cursor, throughSeq })) {
      seqs.push(...events.map(({ seq }) => seq))
      last = at
    }
    return [seqs, last]
  }
  assert.deepEqual(await read(7), [sequence(1, 7), 7])
  assert.deepEqual(await read(12), [sequence(1, 12), 12])
  const head = await client.head()
  assert.equal(head, 14)
  assert.deepEqual(await read(head ?? 0, 9), [sequence(10, 14), 14])
  assert.deepEqual(await read(14, 14), [[], 14], 'nothing is asked for')
  server.onSubscriber = (socket) => {
    const payload = { $type: 'network.social.stream.subscribeEvents#info', name: 'Progress', seq: 30 }
    socket.send(JSON.stringify({ $type: 'message', payload }))
  }
  assert.deepEqual(await read(20, 14), [[], 20])
})

test('a live read starts at a time, and goes on by seq after a reconnect', async () => {
  await using server = await StreamServer.start()
  const since = new Date('2026-01-01T00:00:00.001Z')
  server.onSubscriber = (socket, query) => {
    void (async () => {
      const cursor = Number(query.get('cursor'))
      socket.send(await messageOf(row(cursor > 1e15 ? 40 : cursor + 1)))
      socket.terminate()
    })()
  }
  const client = createStreamClient({ url: server.url, retry: fast })
  const seqs: number[] = []
  for await (const { events } of client.live({ since })) {
    seqs.push(...events.map(({ seq }) => seq))
    if (seqs.length === 3) break
  }
  assert.deepEqual(seqs, [40, 41, 42])
  assert.equal(server.requests[0], 'subscribeEvents?cursor=1767225600001000&progress=true')
  await assert.rejects(client.live({ since, cursor: 4 }).next(), { code: 'InvalidRequest' })
  await assert.rejects(client.live({ since: new Date(5) }).next(), { code: 'InvalidRequest' })
})

test('a connection that drops is resumed from the last event, however often', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket, query) => {
    const cursor = Number(query.get('cursor'))
    void (async () => {
      // The cursor is inclusive: the last event comes again and must not be given out twice.
      for (const one of rows(Math.max(cursor, 1), cursor + 3)) socket.send(await messageOf(one))
      socket.terminate()
    })()
  }
  const { seqs, reasons } = await readThrough(server, 30)
  assert.deepEqual(seqs, sequence(1, 30))
  assert.ok(reasons.length >= 9 && reasons.every((reason) => reason === 'closed'))
})

test('a cursor that became too old while away is refilled from the archive', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 5))
  const reading = readThrough(server, 25)
  await server.until(() => server.subscribers.size > 0)
  server.refuse = (query) =>
    Number(query.get('cursor')) < 20 ? { status: 400, error: 'CursorTooOld' } : undefined
  await server.seal(rows(1, 20))
  server.dropSubscribers()
  await server.append(...rows(21, 25))
  const { seqs, statuses } = await reading
  assert.deepEqual(seqs, sequence(1, 25))
  assert.ok(statuses.some((status) => status.type === 'refilling'))
})

test('refilling that gets nowhere is given up, and a live reader is told at once', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 5))
  server.refuse = () => ({ status: 400, error: 'CursorTooOld' })
  await assert.rejects(readThrough(server, 9), { code: 'Stalled' })
  assert.equal(server.requests.filter((request) => request.startsWith('subscribe')).length, 6)
  await assert.rejects(
    readThrough(server, 9, (client) => client.live({ cursor: 2 })),
    { code: 'CursorTooOld' },
  )
})

test('a server that is behind the cursor is another one, and that is an error instead of silence', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 5))
  server.onSubscriber = (socket) => void messageOf(row(3)).then((text) => socket.send(text))
  await assert.rejects(readThrough(server, 901, ahead), { code: 'FutureCursor' })
  server.onSubscriber = (socket) => {
    socket.send(JSON.stringify({ $type: 'message', payload: { $type: 'x.y#info', name: 'FutureCursor' } }))
  }
  await assert.rejects(readThrough(server, 901, ahead), { code: 'FutureCursor' })
})

test('messages that cannot be used are reported with their seq, and never hold the cursor', async () => {
  await using server = await StreamServer.start()
  const bad = [
    'not json',
    '[]',
    '{"$type":"message","payload":{"$type":"x.y#commit","seq":2,"did":"nobody","time":""}}',
    `{"$type":"message","payload":{"$type":"x.y#novelty","seq":3,"did":"${did}","time":"t"}}`,
  ]
  server.onSubscriber = (socket, query) => {
    void (async () => {
      if (query.get('cursor') !== '0') return socket.send(await messageOf(row(4)))
      socket.send(await messageOf(row(1)))
      for (const text of bad) socket.send(text)
      socket.send(Buffer.from([1, 2, 3]))
      socket.send(
        JSON.stringify({ $type: 'message', payload: { $type: 'x.y#info', name: 'Notice', message: 'hi' } }),
      )
      socket.send(JSON.stringify({ $type: 'error', error: 'ConsumerTooSlow', message: 'far behind' }))
    })()
  }
  const { seqs, statuses, gaps } = await readThrough(server, 4)
  assert.deepEqual(seqs, [1, 4])
  assert.deepEqual(gaps, [
    { source: 'live', afterSeq: 1, throughSeq: undefined },
    { source: 'live', afterSeq: 1, throughSeq: undefined },
    { source: 'live', afterSeq: 1, throughSeq: 2 },
    { source: 'live', afterSeq: 2, throughSeq: 3 },
    { source: 'live', afterSeq: 3, throughSeq: undefined },
  ])
  const reported = statuses.flatMap((status) => (status.type === 'malformed' ? [status.seq] : []))
  assert.deepEqual(reported, [undefined, undefined, 2, 3, undefined])
  assert.ok(
    server.requests.includes('subscribeEvents?cursor=3&progress=true'),
    'resumed behind the last malformed event',
  )
  assert.ok(statuses.some((status) => status.type === 'info' && status.message === 'hi'))
  assert.ok(statuses.some((status) => status.type === 'reconnecting' && status.detail.includes('far behind')))
})

test('live rows are filtered exactly, whatever the server sends, and every kind is read', async () => {
  await using server = await StreamServer.start()
  const sent = [
    row(1),
    row(2, { collection: 'app.attested.location' }),
    row(3, { did: 'did:web:other.example' }),
    row(4),
  ]
  await server.append(...sent)
  assert.deepEqual((await readThrough(server, 4, filtered)).seqs, [1, 4])
  const subscription = new URL(
    `http://x/${server.requests.find((request) => request.startsWith('subscribe'))}`,
  )
  assert.equal(
    subscription.search,
    '?cursor=0&progress=true&collections=org.impact.claim.*&dids=did%3Aplc%3Aaaaaaaaaaaaaaaaaaaaaaaaa',
  )
})

test('a notice of progress moves the cursor, and a connection that drops after it is resumed from there', async () => {
  await using server = await StreamServer.start()
  server.onSubscriber = (socket) => {
    const send = (payload: object): void => socket.send(JSON.stringify({ $type: 'message', payload }))
    send({ $type: 'network.social.stream.subscribeEvents#info', name: 'Progress', seq: 70 })
    server.onSubscriber = undefined
    socket.close()
  }
  const cursors: number[] = []
  const client = createStreamClient({ url: server.url, retry: fast })
  await server.append(...rows(71, 71))
  for await (const { cursor, events } of client.live({ cursor: 5 })) {
    cursors.push(cursor, events.length)
    if (cursor === 71) break
  }
  assert.deepEqual(cursors, [70, 0, 71, 1])
  assert.ok(server.requests.includes('subscribeEvents?cursor=70&progress=true'))
})

test('a list of DIDs too long for an address is filtered here', async () => {
  await using server = await StreamServer.start()
  await server.append(row(1), row(2, { did: 'did:web:other.example' }), row(3))
  const dids = [did, ...Array.from({ length: 1000 }, (_, i) => `did:web:host${i}.example`)]
  assert.deepEqual((await readThrough(server, 3, (client) => client.replay({ dids }))).seqs, [1, 3])
  assert.ok(server.requests.includes('subscribeEvents?cursor=0&progress=true'))
})

test('any server of this wire is read through its namespace', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 3))
  const prefix = 'network.bsky.jetstream'
  server.onSubscriber = (socket) => void messageOf(row(4), prefix).then((text) => socket.send(text))
  const client = createStreamClient({
    url: server.url.replace('http', 'ws'),
    nsidPrefix: prefix,
    apiKey: 'key',
  })
  const events = []
  for await (const batch of client.replay()) {
    events.push(...batch.events)
    if (batch.cursor === 4) break
  }
  assert.deepEqual(events[3], await eventOf(row(4)))
  assert.equal(events.length, 4)
})

test('a server that is down is waited for; one that refuses for good is not', async () => {
  await using server = await StreamServer.start()
  await server.append(...rows(1, 2))
  let refused = 0
  server.refuse = () => (refused++ < 3 ? { status: 503, error: 'ServiceUnavailable' } : undefined)
  const { seqs, reasons } = await readThrough(server, 2)
  assert.deepEqual(seqs, [1, 2])
  assert.deepEqual(reasons, ['connect-failed', 'connect-failed', 'connect-failed'])
  server.refuse = () => ({ status: 400, error: 'InvalidRequest' })
  await assert.rejects(readThrough(server, 2), { code: 'InvalidRequest' })
})

test('where nobody listens, no connection ends: none could be made', async () => {
  const controller = new AbortController()
  const details: string[] = []
  const client = createStreamClient({ url: 'ws://127.0.0.1:1' })
  const onStatus = (status: StreamStatus): void => {
    if (status.type !== 'reconnecting') return
    details.push(status.detail)
    controller.abort()
  }
  for await (const { cursor } of client.live({ signal: controller.signal, onStatus }))
    assert.fail(`cursor ${cursor}`)
  assert.match(details.join(), /^no connection could be made: .*ECONNREFUSED/)
})

test('aborting ends the iteration, wherever it is, and the connection with it', async () => {
  await using server = await StreamServer.start()
  await server.append(row(1))
  const controller = new AbortController()
  const { signal } = controller
  const reading = readThrough(server, 9, (client) => client.replay({ signal }))
  await server.until(() => server.subscribers.size > 0)
  controller.abort()
  assert.deepEqual((await reading).seqs.slice(1), [])
  await server.until(() => server.subscribers.size === 0)

  server.intercept = (_method, _request, response) => {
    answerError(response, 503, 'ServiceUnavailable')
    return true
  }
  const waiting = new AbortController()
  const client = createStreamClient({
    url: server.url,
    apiKey: 'key',
    retry: { firstMs: 600_000, maxMs: 600_000 },
  })
  const iterator = client.replay({
    signal: waiting.signal,
    onStatus: (status) => {
      if (status.type === 'reconnecting') waiting.abort()
    },
  })
  assert.deepEqual(await iterator.next(), { done: true, value: undefined })
})
