import assert from 'node:assert/strict'
import { closeSync, mkdtempDisposableSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Did } from '@tributary/protocol'
import Sqlite from 'better-sqlite3'
import { did, fill, limits, selection, timesOf, viewer, withoutWindow } from '../../tests/filled-index.ts'
import { openIndexReader, openIndexWriter } from '../open-index.ts'
import { placesMax } from '../read-places.ts'
import type { IndexReader } from '../reader.ts'
import type { IndexView } from '../select/selection.ts'

function place(name = 'index.sqlite'): Disposable & { path: string; beside: string } {
  const directory = mkdtempDisposableSync(join(tmpdir(), 'index-reader-'))
  const path = join(directory.path, name)
  return { path, beside: join(directory.path, 'next.sqlite'), [Symbol.dispose]: () => directory.remove() }
}

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

test('a file that was removed is not kept open by a connection that nobody uses', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  using at = place()
  {
    await using _writer = await openIndexWriter(at.path)
  }
  await using reader = openIndexReader(at.path)
  await timesOf(reader)
  const close = t.mock.method(Sqlite.prototype, 'close')
  t.mock.timers.tick(60_000)
  assert.equal(close.mock.callCount(), 0)
  rmSync(at.path)
  t.mock.timers.tick(60_000)
  assert.equal(close.mock.callCount(), 1)
})

test('a connection that fails when it is taken again is closed, and another one is opened later', async (t) => {
  using at = place()
  await using writer = await openIndexWriter(at.path)
  await using reader = openIndexReader(at.path)
  await timesOf(reader)
  // What the connection has of the file is no longer good, and the file cannot be read.
  await fill(writer, { follows: [['follows', viewer, did(1)]] })
  await writer.makeDurable()
  const begin = (text: string): void => {
    const file = openSync(at.path, 'r+')
    writeSync(file, text, 0)
    closeSync(file)
  }
  begin('no SQLite format')
  const close = t.mock.method(Sqlite.prototype, 'close')
  await assert.rejects(timesOf(reader), { name: 'IndexStorageError', message: /NOTADB/ })
  assert.equal(close.mock.callCount(), 1)
  begin('SQLite format 3\0')
  assert.deepEqual(await timesOf(reader), [])
})

test('reads beyond those that run wait in line, some of them, and each may give up', async () => {
  using at = place()
  await using _writer = await openIndexWriter(at.path)
  await using reader = openIndexReader(at.path)
  const held = Promise.withResolvers<void>()
  const hold = (view: IndexView): Promise<unknown> => held.promise.then(() => view.probe())
  const running = Array.from({ length: placesMax }, () => reader.snapshot(limits, hold))
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

/** A reader by account, whose viewer follows 50,000 authors, and what counts the turns of the event loop. */
async function readerOfMany(): Promise<{ reader: IndexReader; turns: () => number } & AsyncDisposable> {
  await using resources = new AsyncDisposableStack()
  const at = resources.use(place())
  const writer = resources.use(await openIndexWriter(at.path))
  const authors = Array.from({ length: 50_000 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.map((author) => ['follows', viewer, author]),
    entries: authors.map((author, index): [Did, bigint] => [author, BigInt(index)]),
  })
  const reader = resources.use(openIndexReader(at.path, withoutWindow))
  let count = 0
  let counting = setImmediate(function countTurn() {
    count++
    counting = setImmediate(countTurn)
  })
  resources.defer(() => clearImmediate(counting))
  const started = resources.move()
  return { reader, turns: () => count, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

test('a page of many accounts gives others their turns', async () => {
  await using many = await readerOfMany()
  await Promise.all([timesOf(many.reader), timesOf(many.reader)])
  assert.ok(many.turns() >= 4, `${many.turns()} turns`)
})

test('a read that had few turns goes on before pages of many accounts, however many of those are read', async () => {
  await using many = await readerOfMany()
  const { reader, turns } = many
  let read = 0
  const large = Promise.all(Array.from({ length: 7 }, () => timesOf(reader).finally(() => read++)))
  while (turns() < 40) await nextTurn()
  const waits = await reader.snapshot(limits, async (view) => {
    const each: number[] = []
    for (let probe = 0; probe < 3; probe++) {
      for (const from = performance.now(); performance.now() - from < 5;); // its turn is over then
      const before = turns()
      await view.probe()
      each.push(turns() - before)
    }
    return each
  })
  assert.equal(read, 0, 'all large pages are still being read')
  // One turn of its own, and one that may be for the read which waited longest.
  assert.ok(Math.max(...waits) <= 3, `turns until each statement: ${waits.join(', ')}`)
  await large
})
