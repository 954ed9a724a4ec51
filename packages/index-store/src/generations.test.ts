/** On both databases: a rebuild asks, fills the next generation and switches, and readers see one whole generation. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { newPostgresDatabase } from '@tributary/testkit'
import { did, fill, timesOf, viewer } from '../tests/filled-index.ts'
import { openGenerations, openIndexReader, openIndexWriter } from './open-index.ts'
import type { IndexWriter } from './writer.ts'

async function newPlace(t: TestContext): Promise<string> {
  const database = await newPostgresDatabase()
  if (database !== undefined) return database
  const directory = mkdtempSync(join(tmpdir(), 'generations-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return join(directory, 'index.sqlite')
}

/** An index with one entry at that time, whose stream was read so far. */
async function write(writer: IndexWriter, time: bigint): Promise<void> {
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), time]] })
  await writer.write((batch) => batch.put('cursors', [{ source: 'stream:x', cursor: time }]))
}

test('readers see the next generation from the switch on, and a writer opens it', async (t) => {
  const place = await newPlace(t)
  await using generations = openGenerations(place)
  await using first = await openIndexWriter(place)
  await write(first, 1n)
  await using reader = openIndexReader(place)
  assert.deepEqual(await timesOf(reader), [1])

  await using next = await openIndexWriter(place, { generation: 2 })
  await write(next, 2n)
  assert.deepEqual(await timesOf(reader), [1], 'before the switch')
  assert.deepEqual(await generations.progress(), [
    { generation: 1, cursor: 1 },
    { generation: 2, cursor: 2 },
  ])
  await next.makeDurable()
  await generations.switchTo(2)
  assert.deepEqual(await timesOf(reader), [2])
  assert.equal(await generations.current(), 2)
  await first[Symbol.asyncDispose]()
  await next[Symbol.asyncDispose]()
  await using again = await openIndexWriter(place)
  assert.deepEqual(await again.write((batch) => batch.loadAll('cursors')), [
    { source: 'stream:x', cursor: 2n },
  ])
})

test('a read that began before the switch ends in the generation where it began', async (t) => {
  const place = await newPlace(t)
  await using generations = openGenerations(place)
  for (const generation of [1, 2]) {
    await using writer = await openIndexWriter(place, { generation })
    await write(writer, BigInt(generation))
  }
  await using reader = openIndexReader(place)
  const seen = await reader.snapshot({ timeoutMs: 60_000 }, async (view) => {
    const times = async (): Promise<number[]> => {
      const entries = await view.entries({ viewer, evaluators: [], labelers: [], limit: 3, now: 0n })
      return entries.map(({ feedTime }) => Number(feedTime))
    }
    const before = await times()
    await generations.switchTo(2)
    return [before, await times()]
  })
  assert.deepEqual(seen, [[1], [1]])
})

test('the generation that is read is never removed', async (t) => {
  const place = await newPlace(t)
  await using generations = openGenerations(place)
  for (const generation of [1, 2]) {
    await using writer = await openIndexWriter(place, { generation })
    await write(writer, BigInt(generation))
  }
  await generations.switchTo(2)
  await assert.rejects(generations.keepOnly([1]), { name: 'IndexStorageError', message: /generation 2/ })
  assert.equal((await generations.progress()).length, 2)
})

test('a generation that was replaced is removed, and the others are read on', async (t) => {
  const place = await newPlace(t)
  await using generations = openGenerations(place)
  for (const generation of [1, 2, 3]) {
    await using writer = await openIndexWriter(place, { generation })
    await write(writer, BigInt(generation))
  }
  await generations.switchTo(3)
  assert.equal(await generations.keepOnly([3]), undefined)
  assert.deepEqual(await generations.progress(), [{ generation: 3, cursor: 3 }])
  await using reader = openIndexReader(place)
  assert.deepEqual(await timesOf(reader), [3])
  await using again = openGenerations(place)
  assert.equal(await again.current(), 3)
  await using fourth = await openIndexWriter(place, { generation: 4 })
  assert.deepEqual(await fourth.write((batch) => batch.loadAll('cursors')), [])
})

test('a rebuild is asked for until the next generation is the present one', async (t) => {
  const place = await newPlace(t)
  await using generations = openGenerations(place)
  {
    await using _writer = await openIndexWriter(place)
  }
  assert.equal(await generations.isRebuildAsked(), false)
  await generations.askForRebuild()
  await generations.askForRebuild()
  await using other = openGenerations(place)
  assert.equal(await other.isRebuildAsked(), true)
  await other.switchTo(2)
  assert.equal(await generations.isRebuildAsked(), false)
})

async function flat<T>(pages: AsyncIterable<T[]>): Promise<T[]> {
  const rows: T[] = []
  for await (const page of pages) rows.push(...page)
  return rows
}

test('pages of a table are all of its rows in order, each once', async (t) => {
  await using writer = await openIndexWriter(await newPlace(t))
  const label = { src: did('l'), uri: did(1), did: did(1), val: 'draft', cid: null, exp: null } as const
  const labels = Array.from({ length: 1203 }, (_, index) => ({
    ...label,
    neg: BigInt(index % 2),
    cts: BigInt(index - (index % 2)),
    ...(index % 3 === 0 && { cid: 'bafy' }),
    ...(index % 5 === 0 && { exp: 7n }),
  }))
  const handles = Array.from({ length: 1000 }, (_, index) => ({ did: did(index), handle: `h${index}.test` }))
  const read = await writer.write(async (batch) => {
    await batch.put('labels', labels)
    await batch.put('handles', handles)
    return { labels: await flat(batch.pages('labels')), handles: await flat(batch.pages('handles')) }
  })
  assert.equal(read.labels.length, 1203)
  const text = (row: object): string => Object.values(row).map(String).join(' ')
  assert.equal(new Set(read.labels.map(text)).size, 1203)
  assert.deepEqual(
    read.handles.map((row) => row.did),
    handles.map((row) => row.did).toSorted(),
  )
})

test('what the index holds of an account is told', async (t) => {
  const place = await newPlace(t)
  await using writer = await openIndexWriter(place)
  await write(writer, 5n)
  const row = {
    collection: 'a.b.c',
    cid: 'bafy',
    json: '{}',
    indexedAt: 1n,
    createdAt: null,
    feedTime: 1n,
  }
  await writer.write(async (batch) => {
    for (const name of [1, 2]) {
      const uri = `at://${did(name)}/a.b.c/1`
      await batch.put('records', [{ ...row, uri, did: did(name) }])
    }
    await batch.put('handles', [{ did: did(1), handle: 'one.test' }])
  })
  await using reader = openIndexReader(place)
  const report = await reader.snapshot({ timeoutMs: 60_000 }, (view) => view.account(did(1)))
  assert.deepEqual(report, {
    account: undefined,
    handle: 'one.test',
    records: [{ collection: 'a.b.c', count: 1n }],
    entries: [{ kind: 'cert.create', count: 1n }],
    follows: 0n,
    labels: [],
  })
})
