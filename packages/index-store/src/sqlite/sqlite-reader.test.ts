import assert from 'node:assert/strict'
import { mkdtempDisposableSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { openIndexReader, openIndexWriter } from '../open-index.ts'
import type { IndexReader } from '../reader.ts'
import type { IndexWriter } from '../writer.ts'
import type { IndexView, Selection } from '../select/selection.ts'

const viewer = did('viewer')
const limits = { timeoutMs: 60_000 }
const selection: Selection = { viewer, evaluators: [], labelers: [], limit: 3, now: 0n }
/** More than one step looks at. */
const many = 3500

function did(name: string | number): Did {
  return `did:plc:${String(name).padStart(24, 'a')}` as Did // valid by construction
}

function place(name = 'index.sqlite'): Disposable & { path: string; beside: string } {
  const directory = mkdtempDisposableSync(join(tmpdir(), 'index-reader-'))
  const path = join(directory.path, name)
  return { path, beside: join(directory.path, 'next.sqlite'), [Symbol.dispose]: () => directory.remove() }
}

async function fill(
  writer: IndexWriter,
  rows: { follows?: string[][]; entries?: [Did, bigint, string?][] },
): Promise<void> {
  const relations = (rows.follows ?? []).map(([table = '', from = '', subject = ''], at) => ({
    table,
    uri: `at://${from}/${table}/${at}`,
    from: from as Did, // made by `did`
    subject: subject as Did, // made by `did`
  }))
  const of = (wanted: string) => relations.filter(({ table }) => table === wanted)
  await writer.write(async (batch) => {
    await batch.put(
      'follows',
      of('follows').map(({ uri, from, subject }) => ({ uri, viewer: from, subject })),
    )
    await batch.put(
      'endorsements',
      of('endorsements').map(({ uri, from, subject }) => ({ uri, issuer: from, subject })),
    )
    await batch.put(
      'entries',
      (rows.entries ?? []).map(([author, feedTime, rkey = String(feedTime)]) => ({
        uri: `at://${author}/a.b.c/${rkey}`,
        did: author,
        kind: 'cert.create',
        feedTime,
      })),
    )
  })
}

const timesOf = (reader: IndexReader, more: Partial<Selection> = {}): Promise<number[]> =>
  reader.snapshot(limits, async (view) =>
    (await view.entries({ ...selection, ...more })).map(({ feedTime }) => Number(feedTime)),
  )

test('a reader says that it must wait until the writer has made the database, then sees what was committed', async () => {
  using at = place()
  await using reader = openIndexReader(at.path)
  await assert.rejects(timesOf(reader), { name: 'IndexNotReadyError' })
  await using writer = await openIndexWriter(at.path)
  assert.deepEqual(await timesOf(reader), [])
  await fill(writer, {
    follows: [['follows', viewer, did(1)]],
    entries: [[did(1), 253_402_300_799_999_999n]],
  })
  const [entry] = await reader.snapshot(limits, (view) => view.entries(selection))
  assert.equal(entry?.feedTime, 253_402_300_799_999_999n)
})

test('a database of another schema is refused by name, also when it was open', async () => {
  using at = place()
  await using _writer = await openIndexWriter(at.path)
  await using reader = openIndexReader(at.path)
  await timesOf(reader)
  using sqlite = new DatabaseSync(at.path)
  sqlite.exec("insert into kysely_migration values ('9999-later', ''); create table later (uri text)")
  await assert.rejects(timesOf(reader), { name: 'IndexNotReadyError', message: /schema 9999-later/ })
  sqlite.exec("delete from kysely_migration where name = '9999-later'; drop table later")
  assert.deepEqual(await timesOf(reader), [])
})

test('a database that takes the place of another one is read from the next call on', async () => {
  using at = place()
  const make = async (path: string, feedTime: bigint): Promise<void> => {
    await using writer = await openIndexWriter(path)
    await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), feedTime]] })
  }
  await using reader = openIndexReader(at.path)
  await make(at.path, 1n)
  assert.deepEqual(await timesOf(reader), [1])
  await make(at.beside, 2n)
  for (const end of ['-wal', '-shm']) rmSync(`${at.path}${end}`, { force: true })
  renameSync(at.beside, at.path)
  assert.deepEqual(await timesOf(reader), [2])
})

test('a snapshot is one state of the index, whatever is written meanwhile', async () => {
  using at = place()
  await using writer = await openIndexWriter(at.path)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await using reader = openIndexReader(at.path)
  await reader.snapshot(limits, async (view) => {
    const before = await view.entries(selection)
    await fill(writer, { entries: [[did(1), 2n]] })
    assert.deepEqual(await view.entries(selection), before)
  })
  assert.deepEqual(await timesOf(reader), [2, 1])
})

test('accounts that are looked at in several steps give the same entries as in one', async () => {
  using at = place()
  await using writer = await openIndexWriter(at.path)
  const authors = Array.from({ length: many }, (_, index) => did(index))
  const evaluators = [did('first'), did('second'), did('third')]
  await fill(writer, {
    follows: [
      ...authors.map((author) => ['follows', viewer, author]),
      // The last of an author's range, some that are followed too, and one that nobody else names.
      ...authors.slice(-1200).map((author) => ['endorsements', did('first'), author]),
      ...authors.slice(0, 700).map((author) => ['endorsements', did('second'), author]),
      ['endorsements', did('third'), did('newcomer')],
      ['endorsements', did('third'), viewer],
    ],
    entries: [
      ...authors.map((author, index): [Did, bigint] => [author, BigInt((index * 7919) % many)]),
      [did('newcomer'), BigInt(many)],
      [viewer, BigInt(many + 1)],
      [did(17), BigInt(many), 'b'],
      [did(3499), BigInt(many), 'a'],
    ],
  })
  await using reader = openIndexReader(at.path)
  const all = { limit: many * 2, evaluators }
  const wanted = [...Array(many).keys()].toReversed()
  assert.deepEqual(await timesOf(reader, all), [many, many, many, ...wanted])
  assert.deepEqual(await timesOf(reader, { ...all, limit: 5 }), [many, many, many, ...wanted.slice(0, 2)])
  assert.deepEqual(await timesOf(reader, { limit: 4 }), [many, many, ...wanted.slice(0, 2)])
  const walked: string[] = []
  let after: Selection['after']
  do {
    const next: Partial<Selection> = after ? { after } : {}
    const page = await reader.snapshot(limits, (view) =>
      view.entries({ ...selection, ...all, limit: 999, ...next }),
    )
    walked.push(...page.map(({ uri }) => uri))
    after = page.at(-1)
  } while (after !== undefined)
  assert.deepEqual([walked.length, new Set(walked).size], [many + 3, many + 3])
})

test('a read that takes longer than its time ends between two steps', async () => {
  using at = place()
  await using writer = await openIndexWriter(at.path)
  await fill(writer, { follows: [['follows', viewer, did(1)]] })
  await using reader = openIndexReader(at.path)
  await assert.rejects(
    reader.snapshot({ timeoutMs: 0 }, (view) => view.entries(selection)),
    { name: 'ReadTimeoutError' },
  )
  assert.deepEqual(await timesOf(reader), [])
})

test('a read whose caller has gone ends between two steps', async () => {
  using at = place()
  await using _writer = await openIndexWriter(at.path)
  await using reader = openIndexReader(at.path)
  const caller = new AbortController()
  const read = reader.snapshot({ ...limits, signal: caller.signal }, async (view) => {
    caller.abort(new Error('gone'))
    return view.entries(selection)
  })
  await assert.rejects(read, { message: 'gone' })
  await assert.rejects(
    reader.snapshot({ ...limits, signal: caller.signal }, async () => 1),
    { message: 'gone' },
  )
})

test('reads beyond those that run wait in line, some of them, and each may give up', async () => {
  using at = place()
  await using _writer = await openIndexWriter(at.path)
  await using reader = openIndexReader(at.path)
  const held = Promise.withResolvers<void>()
  const hold = (view: IndexView): Promise<unknown> => held.promise.then(() => view.probe())
  const running = Array.from({ length: 8 }, () => reader.snapshot(limits, hold))
  const caller = new AbortController()
  const leaving = assert.rejects(
    reader.snapshot({ ...limits, signal: caller.signal }, async () => 1),
    { message: 'gone' },
  )
  const late = assert.rejects(
    reader.snapshot({ timeoutMs: 1 }, async () => 1),
    { name: 'ReadTimeoutError' },
  )
  const order: number[] = []
  const waiting = Array.from({ length: 254 }, (_, index) =>
    reader.snapshot(limits, async () => void order.push(index)),
  )
  await assert.rejects(
    reader.snapshot(limits, async () => 1),
    { name: 'ReaderBusyError' },
  )
  caller.abort(new Error('gone'))
  await leaving
  await late
  const last = reader.snapshot(limits, async () => void order.push(254))
  assert.deepEqual(order, [])
  held.resolve()
  await Promise.all([...running, ...waiting, last])
  assert.deepEqual(order, [...Array(255).keys()])
})

test('a page of many accounts gives others their turns', async () => {
  using at = place()
  await using writer = await openIndexWriter(at.path)
  const authors = Array.from({ length: 50_000 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.map((author) => ['follows', viewer, author]),
    entries: authors.map((author, index): [Did, bigint] => [author, BigInt(index)]),
  })
  await using reader = openIndexReader(at.path)
  let isDone = false
  let turns = 0
  const reads = Promise.all([timesOf(reader), timesOf(reader)]).finally(() => (isDone = true))
  const countTurn = (): void => {
    turns++
    if (!isDone) setImmediate(countTurn)
  }
  countTurn()
  await reads
  assert.ok(turns >= 4, `${turns} turns`)
})
