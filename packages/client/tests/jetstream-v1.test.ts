/** Servers of Jetstream v1: live events of `/subscribe`, as a production server sent them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  type ClientEvent,
  createStreamClient,
  type LiveReadOptions,
  plainEvent,
  type StreamClient,
} from '../src/node.ts'
import { createStreamClient as createBrowserClient } from '../src/index.ts'
import { did, StreamServer } from './stream-server.ts'

const recorded = join(import.meta.dirname, '../../../apps/stream/vectors/corpus/expected_v1.jsonl')
const lines = readFileSync(recorded, 'utf8').trim().split('\n')
const fast = { firstMs: 1, maxMs: 4 }
const start = 1_750_000_000_000_000

interface V1Message {
  did: string
  time_us: number
  kind: string
  commit?: Record<string, unknown>
}

function message(micros: number, fields: object = {}): string {
  const commit = { rev: '3migo7fijwi2k', operation: 'delete', collection: 'org.impact.a', rkey: `r${micros}` }
  return JSON.stringify({ did, time_us: micros, kind: 'commit', commit, ...fields })
}

async function take(client: StreamClient, count: number, options: LiveReadOptions = {}) {
  const events: ClientEvent[] = []
  const gaps: object[] = []
  let cursor = 0
  for await (const batch of client.live(options)) {
    events.push(...batch.events)
    gaps.push(...batch.gaps)
    cursor = batch.cursor
    if (events.length + gaps.length >= count) break
  }
  return { events, gaps, cursor, seqs: events.map(({ seq }) => seq) }
}

for (const [name, create] of [
  ['Node', createStreamClient],
  ['browsers', createBrowserClient],
] as const) {
  test(`in ${name} each event that a server of version 1 sends is given out, also when times go back`, async () => {
    await using server = await StreamServer.start()
    const paths: (string | undefined)[] = []
    server.onSubscriber = (socket) => {
      assert.equal(socket.protocol, '')
      for (const line of lines) socket.send(line)
    }
    server.onUpgrade = (request) => paths.push(request.url)
    const client = create({ url: server.url, jetstreamVersion: 1, retry: fast })
    const wanted = lines
      .map((line) => JSON.parse(line) as V1Message) // as the server wrote it
      .filter(({ commit }) => !commit || String(commit['collection']).startsWith('app.bsky.'))
    const { events, gaps, seqs } = await take(client, wanted.length, { collections: ['app.bsky.*'] })
    assert.deepEqual(paths, ['/subscribe?wantedCollections=app.bsky.*'])
    assert.deepEqual(gaps, [])
    assert.deepEqual(
      events.map((event) => {
        const { kind, seq: _, time: __, did: account, ...body } = plainEvent(event)
        return { did: account, kind, ...(kind === 'commit' ? { commit: body } : body) }
      }),
      wanted.map((sent) => {
        const { time_us: _, ...rest } = sent
        return rest
      }),
    )
    assert.ok(seqs.every((seq, i) => i === 0 || seq > (seqs[i - 1] ?? 0)))
    assert.equal(events[0]?.time, '2026-07-04T14:38:08.085434Z')
  })
}

test('a connection that drops goes on a little before the last event, and each event comes once', async () => {
  await using server = await StreamServer.start()
  const cursors: (string | null)[] = []
  const sent = [start + 5, start + 9, start + 9, start + 2, start + 20]
  server.onSubscriber = (socket, query) => {
    const cursor = query.get('cursor')
    cursors.push(cursor)
    const rest = sent.filter((micros) => micros >= Number(cursor ?? 0))
    for (const micros of cursors.length === 1 ? sent.slice(0, 4) : rest) socket.send(message(micros))
    // Ends the test if an event is lost.
    if (cursors.length > 2) socket.send(message(start + 20 + cursors.length))
    socket.terminate()
  }
  const client = createStreamClient({ url: server.url, jetstreamVersion: 1, retry: fast })
  const { events, seqs, cursor } = await take(client, 5)
  assert.deepEqual(
    events.map((event) => event.kind === 'commit' && event.rkey),
    [start + 5, start + 9, start + 9, start + 2, start + 20].map((micros) => `r${micros}`),
  )
  // An event that is no newer than the one before it gets the next number.
  assert.deepEqual(seqs, [start + 5, start + 9, start + 10, start + 11, start + 20])
  assert.equal(cursor, start + 20)
  assert.deepEqual(cursors, [null, String(start + 11 - 5_000_000)])
})

test('an event that comes after a connection has dropped is given out, also when its time is not after the last one', async () => {
  await using server = await StreamServer.start()
  const late = { operation: 'delete', collection: 'org.impact.a', rev: '3migo7fijwi2k', rkey: 'late' }
  const bad = message(start + 8, { kind: 'novelty' })
  const history = [message(start + 9), message(start + 9, { commit: late }), message(start + 5), bad]
  let connections = 0
  server.onSubscriber = (socket) => {
    const [first = '', ...rest] = history
    socket.send(first)
    if (connections++ > 0) for (const text of [...rest, message(start + 18 + connections)]) socket.send(text)
    socket.terminate()
  }
  const client = createStreamClient({ url: server.url, jetstreamVersion: 1, retry: fast })
  const { events, gaps, seqs } = await take(client, 5)
  assert.deepEqual(
    events.map((event) => event.kind === 'commit' && event.rkey),
    [`r${start + 9}`, 'late', `r${start + 5}`, `r${start + 20}`],
  )
  assert.deepEqual(seqs, [start + 9, start + 10, start + 11, start + 20])
  const detail = 'unknown kind of event novelty'
  assert.deepEqual(gaps, [{ source: 'live', afterSeq: start + 11, throughSeq: start + 12, detail }])
})

test('a server of version 2 numbers its messages of version 1, and its seqs are the cursors then', async () => {
  await using server = await StreamServer.start()
  const cursors: (string | null)[] = []
  server.onSubscriber = (socket, query) => {
    cursors.push(query.get('cursor'))
    // Times of one server need not grow.
    for (const seq of [7, 8, 9]) socket.send(message(start - seq, { cursor: seq }))
    socket.terminate()
  }
  const client = createStreamClient({ url: server.url, jetstreamVersion: 1, retry: fast })
  const seqs: number[] = []
  for await (const { events, cursor } of client.replay({ cursor: 7, throughSeq: 9 })) {
    seqs.push(...events.map(({ seq }) => seq))
    assert.ok(cursor <= 9)
  }
  assert.deepEqual([seqs, cursors], [[8, 9], ['7']])
})

test('what cannot be read of version 1 is a gap, and a cursor of another server is an error', async () => {
  await using server = await StreamServer.start()
  const bad = [
    '[]',
    '{"did":"x"}',
    message(start + 1, { commit: {} }),
    message(start + 2, { kind: 'novelty' }),
  ]
  server.onSubscriber = (socket) => {
    for (const text of bad) socket.send(text)
    socket.send(message(start + 3))
  }
  const client = createStreamClient({ url: server.url, jetstreamVersion: 1, retry: fast })
  const { seqs, gaps } = await take(client, 5, { cursor: start })
  assert.deepEqual(seqs, [start + 3])
  assert.equal(gaps.length, 4)
  await assert.rejects(take(client, 1, { cursor: start + 61_000_000 }), { code: 'FutureCursor' })
})

test('what a server of version 1 does not have is refused before anything is sent', async () => {
  const url = 'http://127.0.0.1:1'
  assert.throws(() => createStreamClient({ url, jetstreamVersion: 1, apiKey: 'key' }), /has no key/)
  assert.throws(() => createStreamClient({ url, jetstreamVersion: 1, compress: true }), /no compression/)
  assert.throws(() => createStreamClient({ url, jetstreamVersion: 1, nsidPrefix: 'a.b' }), /no namespace/)
  const client = createStreamClient({ url, jetstreamVersion: 1 })
  await assert.rejects(client.snapshot().next(), /has no archive/)
  await assert.rejects(client.replay({ archiveFirst: true }).next(), /has no archive/)
  await assert.rejects(client.live({ kinds: ['sync'] }).next(), /no sync events/)
})
