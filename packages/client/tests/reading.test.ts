import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import { createStreamClient, type StreamStatus } from '../src/node.ts'
import { startReading } from '../src/reading.ts'
import { did, row, rows, StreamServer } from './stream-server.ts'

const fast = { firstMs: 1, maxMs: 4 }
const marker = { collection: '', rkey: '', rev: '' }

test('an address with a password is refused, and the password is not told', () => {
  assert.throws(
    () => createStreamClient({ url: 'https://me:secret@stream.example.com' }),
    (error: Error) => 'code' in error && error.code === 'InvalidRequest' && !error.message.includes('secret'),
  )
})

test('a reading counts what came, and tells what it does as an iteration that ends with it', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 8), rows(9, 10))
  await server.append(...rows(11, 13))
  let refused = 0
  server.refuse = () => (refused++ === 0 ? { status: 503, error: 'ServiceUnavailable' } : undefined)
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: fast })
  const called: StreamStatus[] = []
  const reading = client.replay({ throughSeq: 13, onStatus: (status) => called.push(status) })
  assert.deepEqual([reading.stats().state, reading.stats().cursor], ['starting', undefined])
  const iterated: StreamStatus[] = []
  const watching = (async () => {
    for await (const status of reading.statuses()) iterated.push(status)
  })()
  const states = new Set<string>()
  for await (const batch of reading) {
    assert.equal(reading.stats().cursor, batch.cursor)
    states.add(reading.stats().state)
  }
  await watching
  assert.deepEqual(iterated, called)
  assert.deepEqual([...states], ['archive', 'live'])
  const { archiveBytes, lagMs, ...counts } = reading.stats()
  const wanted = { events: 13, gaps: 0, connections: 1, failures: 1, cursor: 13, state: 'ended' }
  assert.deepEqual(counts, wanted)
  assert.ok(archiveBytes > 0 && (lagMs ?? 0) > 0)
  assert.deepEqual(await reading.statuses().next(), { done: true, value: undefined })
})

test('bytes of the archive are counted over all times that it is read', async () => {
  await using server = await StreamServer.start()
  await server.seal(rows(1, 8))
  let oldestSeq = 0
  server.refuse = (query) =>
    Number(query.get('cursor')) < oldestSeq ? { status: 400, error: 'CursorTooOld' } : undefined
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: fast })
  const reading = client.replay({ throughSeq: 20, archiveFirst: true })
  const counts: number[] = []
  for await (const { cursor } of reading) {
    counts.push(reading.stats().archiveBytes)
    if (cursor !== 8 || oldestSeq > 0) continue
    // The subscription does not reach back to what was read by now.
    await server.seal(rows(9, 20))
    oldestSeq = 20
  }
  const first = counts[0] ?? 0
  assert.ok(first > 0 && (counts.at(-1) ?? 0) > 2 * first, String(counts))
  assert.deepEqual(
    counts,
    counts.toSorted((a, b) => a - b),
  )
})

test('a reader of statuses that is slow gets the newest', async () => {
  const reading = startReading(async function* (onStatus) {
    for (let afterSeq = 1; afterSeq <= 1500; afterSeq++) onStatus({ type: 'planning', afterSeq })
    yield { events: [], gaps: [], cursor: 1, live: false }
  }, {})
  const statuses = reading.statuses()
  const first = statuses.next()
  for await (const { cursor } of reading) assert.equal(cursor, 1)
  const seqs: number[] = []
  for (let next = await first; !next.done; next = await statuses.next())
    if (next.value.type === 'planning') seqs.push(next.value.afterSeq)
  assert.deepEqual([seqs.length, seqs[0], seqs.at(-1)], [1000, 501, 1500])
})

test('with a set of accounts that were seen, markers of others do not come, and commits add theirs', async () => {
  await using server = await StreamServer.start()
  const [stranger, known, late] = ['did:plc:stranger', 'did:plc:known', 'did:plc:late'] as const
  const account = (seq: number, of: string) =>
    row(seq, { did: of, ...marker, kind: 5, payload: encode({ did: of, seq, time: 't', active: false }) })
  await server.seal([
    account(1, stranger),
    account(2, known),
    account(3, late),
    row(4, { did: late }),
    account(5, late),
  ])
  await server.append(account(6, stranger), row(7), account(8, did))
  const seenAccounts = new Set<string>([known])
  const client = createStreamClient({ url: server.url, apiKey: 'key', retry: fast })
  const seqs: number[] = []
  let cursor = 0
  for await (const batch of client.replay({ throughSeq: 8, seenAccounts })) {
    seqs.push(...batch.events.map(({ seq }) => seq))
    cursor = batch.cursor
  }
  assert.deepEqual([seqs, cursor], [[2, 4, 5, 7, 8], 8])
  assert.deepEqual([...seenAccounts], [known, late, did])
})

test('a malformed row is given out with a set of accounts too, so that whoever reads it is told', async () => {
  await using server = await StreamServer.start()
  await server.seal([row(1, { did: 'nobody' }), row(2, { did: 'nobody', ...marker, kind: 5 }), row(3)])
  const client = createStreamClient({ url: server.url, retry: fast })
  const seqs: number[] = []
  for await (const { events } of client.snapshot({ seenAccounts: new Set() }))
    seqs.push(...events.map(({ seq }) => seq))
  assert.deepEqual(seqs, [1, 2, 3])
})
