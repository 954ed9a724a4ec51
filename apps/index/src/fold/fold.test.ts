/** Batches give the same rows, wherever the stream is cut into them. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import type { IndexWriter } from '@tributary/index-store'
import { type Did, feedCollections, type StreamEvent } from '@tributary/protocol'
import { accountEvent, did, failing, putEvent, Scenario, views } from '../../tests/scenario.ts'
import { Fold } from './fold.ts'

const source = 'stream:of-its-own'
const time = '2026-03-04T12:00:00.000000Z'
const evaluation = (seq: number, rkey: string, record: Record<string, unknown> = {}) => {
  const { event } = putEvent(seq, time, 'A', feedCollections.evaluation, rkey, {})
  return { ...event, record: { ...event.record, ...record } }
}

async function records(world: Scenario): Promise<string[]> {
  return (await world.rows('records')).map(({ uri }) => uri.split('/').at(-1) ?? '').toSorted()
}

test('an event at or below the cursor is counted as repeated and does nothing', async () => {
  await using world = await Scenario.start()
  const { fold } = world
  assert.deepEqual(await fold.apply(source, [evaluation(5, 'a')], 0), {
    applied: 1,
    repeated: 0,
    malformed: 0,
    failed: [],
  })
  assert.deepEqual(
    await fold.apply(source, [evaluation(4, 'b'), evaluation(5, 'c'), evaluation(6, 'd')], 0),
    {
      applied: 1,
      repeated: 2,
      malformed: 0,
      failed: [],
    },
  )
  assert.deepEqual(await records(world), ['a', 'd'])
})

test('the cursor covers the last event of a batch, goes on where nothing matched, and never goes back', async () => {
  await using world = await Scenario.start()
  const { fold } = world
  const cursorAfter = async (seqs: number[], cursor: number): Promise<number> => {
    await fold.apply(
      source,
      seqs.map((seq) => evaluation(seq, `r${seq}`)),
      cursor,
    )
    return await fold.stream.cursor(source)
  }
  assert.equal(await cursorAfter([3, 7], 0), 7)
  assert.equal(await cursorAfter([], 20), 20)
  assert.equal(await cursorAfter([], 10), 20)
  assert.equal(await cursorAfter([21], 25), 25)
})

test('of a batch that meets a fault of the database nothing has happened', async () => {
  await using world = await Scenario.start()
  let isBroken = false
  const writer = failing(world.connection, () => isBroken)
  const fold = new Fold(writer, { updateContentTypes: [] }, views)
  await fold.apply(source, [evaluation(1, 'a')], 0)
  const batch = [accountEvent(2, time, 'A', false, 'takendown'), evaluation(3, 'b')]
  isBroken = true
  await assert.rejects(fold.apply(source, batch, 4), { name: 'IndexStorageError' })
  isBroken = false
  assert.deepEqual(
    [await records(world), await fold.stream.cursor(source), await fold.statusSeq(did('A'))],
    [['a'], 1, 0n],
  )
  await fold.apply(source, [evaluation(3, 'b')], 0)
  assert.deepEqual((await world.entries()).toSorted(), ['evaluation.create a', 'evaluation.create b'])
})

test('an event that the fold fails at is left out, and the others of its batch count', async () => {
  await using world = await Scenario.start()
  const { fold } = world
  // A record that cannot be written as JSON.
  const bad = evaluation(3, 'c', { n: 1n })
  const hidden = accountEvent(2, time, 'B', false, 'takendown')
  const counts = await fold.apply(source, [evaluation(1, 'a'), hidden, bad, evaluation(4, 'b')], 0)
  assert.deepEqual([counts.applied, counts.malformed], [3, 0])
  assert.deepEqual(
    counts.failed.map(({ seq, error }) => [seq, error instanceof TypeError]),
    [[3, true]],
  )
  assert.deepEqual([await records(world), await fold.stream.cursor(source)], [['a', 'b'], 4])
  assert.deepEqual((await world.entries()).toSorted(), ['evaluation.create a', 'evaluation.create b'])
})

test('any number of events is one transaction, of which those that cannot be read or fail are left out', async () => {
  await using world = await Scenario.start()
  const events = Array.from({ length: 5001 }, (_, index) =>
    evaluation(index + 1, `r${index}`, index === 4100 ? { n: 1n } : {}),
  )
  let transactions = 0
  const { connection } = world
  const writer: IndexWriter = {
    write: (work) => (transactions++, connection.write(work)),
    makeDurable: () => connection.makeDurable(),
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  }
  const fold = new Fold(writer, { updateContentTypes: [] }, views)
  await fold.finish()
  transactions = 0
  const read = (event: StreamEvent): StreamEvent | undefined => (event.seq === 3000 ? undefined : event)
  const { failed, ...counts } = await fold.apply(source, events, 0, { read, bytesOf: () => 0 })
  assert.deepEqual(counts, { applied: 4999, repeated: 0, malformed: 1 })
  assert.deepEqual(
    failed.map(({ seq }) => seq),
    [4101],
  )
  // The first one is taken back when an event fails, and it is looked whether it has left anything to do.
  assert.equal(transactions, 3)
  assert.equal((await world.entries()).length, 4999)
  assert.equal(await fold.stream.cursor(source), 5001)
  assert.equal((await fold.stream.foldedEvents()).size, 64)
})

test('records that are large are read only a few before those so far are applied', async () => {
  await using world = await Scenario.start()
  const eventBytes = 300_000
  const events = Array.from({ length: 100 }, (_, index) => evaluation(index + 1, `r${index}`))
  let [readBytes, readBytesMax] = [0, 0]
  const counting = {
    ...views,
    of: (...record: Parameters<typeof views.of>) => {
      readBytes -= eventBytes
      return views.of(...record)
    },
  }
  const read = (event: StreamEvent): StreamEvent => {
    readBytes += eventBytes
    readBytesMax = Math.max(readBytesMax, readBytes)
    return event
  }
  const fold = new Fold(world.connection, { updateContentTypes: [] }, counting)
  const { applied } = await fold.apply(source, events, 0, { read, bytesOf: () => eventBytes })
  assert.equal(applied, 100)
  assert.ok(readBytesMax <= 2_500_000, `${readBytesMax} bytes of records were decoded at a time`)
  assert.equal(await fold.stream.cursor(source), 100)
  assert.equal((await fold.stream.foldedEvents()).size, 64)
})

test('an event of a foreign stream that cannot be stored, or is too large, is malformed and ends nothing', async () => {
  await using world = await Scenario.start()
  const { fold } = world
  let deep: unknown = []
  for (let level = 0; level < 20_000; level++) deep = [deep]
  const events = [
    evaluation(2, 'deep', { deep }),
    { ...evaluation(3, 'cid'), cid: 'bafyrei\0aaaaaaa' },
    { ...evaluation(4, 'rev'), rev: '3\0' },
    evaluation(5, 'wide', { wide: Array<number>(40_000).fill(0) }),
  ]
  assert.deepEqual(await fold.apply(source, [evaluation(1, 'a'), ...events], 0), {
    applied: 1,
    repeated: 0,
    malformed: events.length,
    failed: [],
  })
  assert.deepEqual(
    [await records(world), await world.entries(), await fold.stream.cursor(source)],
    [['a'], ['evaluation.create a'], 5],
  )
  const folded = await world.rows('foldedEvents')
  assert.equal(folded.length > 0, true)
  for (const { fingerprint } of folded) assert.match(fingerprint, /^[ -~]+$/)
})

for (const status of ['taken\0down', '\ud800', 'geschlossen für immer', 'x'.repeat(129)]) {
  test(`an account is hidden, and back, also with the status ${JSON.stringify(status.slice(0, 30))}`, async () => {
    await using world = await Scenario.start()
    const { fold } = world
    await fold.apply(source, [evaluation(1, 'a'), accountEvent(2, time, 'A', false, status)], 0)
    assert.deepEqual([await records(world), await world.entries()], [['a'], []])
    const accounts = await world.rows('accounts')
    assert.deepEqual(
      accounts.map((account) => account.status),
      ['inactive'],
    )
    await fold.apply(source, [accountEvent(3, time, 'A', true, status)], 0)
    assert.deepEqual(await world.entries(), ['evaluation.create a'])
  })
}

/** Text that no database makes shorter, of characters that any identifier may have. */
function noise(seed: string, chars: number): string {
  const bytes = createHash('shake256', { outputLength: 2 * chars })
    .update(seed)
    .digest()
  return bytes
    .toString('base64')
    .replace(/[^a-zA-Z0-9]/g, '')
    .slice(0, chars)
}

/** An award to a long DID, an answer to an award and a follow, all by `author`, about records of `other` with long keys. */
function longStatements(firstSeq: number, author: Did, other: string): StreamEvent[] {
  const cid = noise('cid', 256)
  const far = `did:web:${noise('far', 2040)}`
  const refer = (collection: string): object => ({
    uri: `at://${other}/${collection}/${noise('key', 512)}`,
    cid,
  })
  const statements: [string, Record<string, unknown>][] = [
    [
      feedCollections.award,
      { subject: { $type: 'app.attested.defs#did', did: far }, badge: refer(feedCollections.definition) },
    ],
    [feedCollections.response, { response: 'accepted', badgeAward: refer(feedCollections.award) }],
    [feedCollections.follow, { subject: far }],
    [feedCollections.evaluation, {}],
  ]
  return statements.map(([collection, record], at) => {
    const { event } = putEvent(firstSeq + at, time, 'A', collection, noise(collection, 512), record)
    return { ...event, did: author }
  })
}

test('addresses of any length are taken or left out alike by all databases, and none ends the process', async () => {
  await using world = await Scenario.start()
  const ofLength = (chars: number): Did => `did:web:${noise('account', chars - 8)}` as Did // of the right form
  const taken = longStatements(1, ofLength(300), ofLength(300))
  const unknown = longStatements(5, did('B'), ofLength(301))
  const tooLong = longStatements(9, ofLength(301), did('B'))
  const counts = await world.fold.apply(source, [...taken, ...unknown, ...tooLong], 0)
  assert.deepEqual(counts, { applied: 8, repeated: 0, malformed: 4, failed: [] })
  const rows = async (table: 'records' | 'awards' | 'responses' | 'follows'): Promise<number> =>
    (await world.rows(table)).length
  assert.deepEqual(
    [await rows('records'), await rows('awards'), await rows('responses'), await rows('follows')],
    [8, 1, 1, 2],
  )
})

test('an account with many records is back with all of them', async () => {
  await using world = await Scenario.start()
  const count = 1203
  const events = Array.from({ length: count }, (_, i) => evaluation(i + 1, `r${i}`))
  const gone = accountEvent(count + 1, time, 'A', false, 'deactivated')
  await world.fold.apply(source, [...events, gone], 0)
  assert.equal((await world.entries()).length, 0)
  await world.fold.apply(source, [accountEvent(count + 2, time, 'A', true)], 0)
  assert.equal((await world.entries()).length, count)
})

test('what becomes of an account does not touch one whose DID goes on where its own ends', async () => {
  await using world = await Scenario.start()
  const [short, long] = ['did:web:example.co', 'did:web:example.com'] as [Did, Did] // of the right form
  const events = [short, long].map((author, i) => ({ ...evaluation(i + 1, `r${i}`), did: author }))
  const deleted = { ...accountEvent(3, time, 'A', false, 'deleted'), did: short }
  await world.fold.apply(source, [...events, deleted], 0)
  assert.deepEqual(await records(world), ['r1'])
})
