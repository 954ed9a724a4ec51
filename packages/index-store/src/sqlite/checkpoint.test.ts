import assert from 'node:assert/strict'
import { copyFileSync, mkdtempDisposableSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import Sqlite from 'better-sqlite3'
import { openIndexWriter } from '../open-index.ts'
import { Checkpoint, type CheckpointOptions } from './checkpoint.ts'

const pageBytes = 4096
/** Pages of the log before it is written back here. */
const logPages = 3000
/** Pages that one transaction of these tests writes, and some. */
const transactionPages = 1000

/** A database with an empty log, whose transactions are as large as above. */
function open(options: CheckpointOptions = { pages: logPages }): Disposable & {
  path: string
  write: () => void
  checkpoint: Checkpoint
  rowsWithoutLog: () => number
} {
  using resources = new DisposableStack()
  const directory = resources.use(mkdtempDisposableSync(join(tmpdir(), 'index-checkpoint-')))
  const path = join(directory.path, 'index.sqlite')
  const sqlite = resources.adopt(new Sqlite(path), (opened) => opened.close())
  sqlite.pragma('journal_mode = WAL')
  sqlite.exec('create table rows (value blob)')
  sqlite.pragma('wal_checkpoint(TRUNCATE)')
  const checkpoint = new Checkpoint(sqlite, path, options)
  const insert = sqlite.prepare('insert into rows values (zeroblob(?))')
  const opened = resources.move()
  return {
    path,
    checkpoint,
    write: () => void insert.run(transactionPages * pageBytes),
    rowsWithoutLog() {
      const copy = join(directory.path, 'copy.sqlite')
      copyFileSync(path, copy)
      using alone = new DatabaseSync(copy)
      return Number(alone.prepare('select count(*) as n from rows').get()?.['n'])
    },
    [Symbol.dispose]: () => opened.dispose(),
  }
}

function logBytes(path: string): number {
  return statSync(`${path}-wal`).size
}

test('a log that is long is written back, and begins anew however much is written', async () => {
  using database = open()
  for (let written = 1; written <= 12; written++) {
    database.write()
    await database.checkpoint.whenDue()
    // Every third transaction makes the log long.
    assert.equal(database.rowsWithoutLog(), written - (written % 3), `after ${written} transactions`)
  }
  assert.ok(logBytes(database.path) < (logPages + 2 * transactionPages) * pageBytes)
})

test('what a reader still needs stays in the log, which is written back whole when the reader has gone', async () => {
  using database = open()
  using resources = new DisposableStack()
  const reader = resources.adopt(new Sqlite(database.path, { readonly: true }), (opened) => opened.close())
  database.write()
  reader.exec('begin')
  const count = reader.prepare<[], number>('select count(*) from rows').pluck()
  assert.equal(count.get(), 1)
  for (let at = 0; at < 6; at++) {
    database.write()
    await database.checkpoint.whenDue()
  }
  assert.ok(database.rowsWithoutLog() < 7)
  assert.equal(count.get(), 1)
  reader.exec('commit')
  await database.checkpoint.whenDue()
  assert.equal(database.rowsWithoutLog(), 7)
  const longest = logBytes(database.path)
  for (let at = 0; at < 6; at++) {
    database.write()
    await database.checkpoint.whenDue()
  }
  assert.equal(logBytes(database.path), longest)
})

/** Pages of a feed, two of which are open at any moment, on the event loop of the test. */
function overlappingPages(path: string): Disposable {
  using resources = new DisposableStack()
  const pages = Array.from({ length: 3 }, () => {
    const reader = resources.adopt(new Sqlite(path, { readonly: true }), (opened) => opened.close())
    const count = reader.prepare<[], number>('select count(*) from rows').pluck()
    return { reader, count, seen: NaN }
  })
  let turns = 0
  const turn = (): void => {
    const [begins, ends] = [pages[turns % 3], pages[++turns % 3]]
    assert.ok(begins && ends)
    begins.reader.exec('begin')
    begins.seen = begins.count.get() ?? NaN
    if (!ends.reader.inTransaction) return
    assert.equal(ends.count.get(), ends.seen)
    ends.reader.exec('commit')
  }
  turn()
  turn()
  const timer = setInterval(turn, 100)
  resources.defer(() => clearInterval(timer))
  return resources.move()
}

test('the log stays bounded although pages overlap at any moment, and they go on while it is emptied', async () => {
  using database = open({ pages: transactionPages })
  using _pages = overlappingPages(database.path)
  let longest = 0
  for (let written = 1; written <= 14; written++) {
    database.write()
    longest = Math.max(longest, logBytes(database.path))
    await database.checkpoint.whenDue()
  }
  assert.ok(longest < 6 * transactionPages * pageBytes, `${longest} bytes of log`)
})

test('a reader that does not end lets the writer go on, which waits for it again when the log is much longer', async () => {
  using database = open({ pages: transactionPages, threadPagesMin: Infinity, readersMs: 1 })
  using resources = new DisposableStack()
  const reader = resources.adopt(new Sqlite(database.path, { readonly: true }), (opened) => opened.close())
  reader.exec('begin')
  reader.prepare('select count(*) from rows').get()
  let threads = 0
  const count = (): void => void threads++
  process.on('worker', count)
  resources.defer(() => process.off('worker', count))
  for (let written = 1; written <= 11; written++) {
    database.write()
    await database.checkpoint.whenDue()
  }
  assert.equal(threads, 2, 'for 11 times the pages')
  reader.exec('commit')
  database.write()
  await database.checkpoint.whenDue()
  assert.equal(logBytes(database.path), 0)
})

test('the event loop goes on while the log is written back', async () => {
  using database = open()
  for (let at = 0; at < 3; at++) database.write()
  let turns = 0
  let isDone = false
  const count = (): void => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await database.checkpoint.whenDue()
  isDone = true
  assert.ok(turns > 1, `${turns} turns`)
  assert.equal(database.rowsWithoutLog(), 3)
})

test('a log that cannot be written back is a fault of the storage', async () => {
  using database = open()
  for (let at = 0; at < 3; at++) database.write()
  rmSync(database.path)
  await assert.rejects(database.checkpoint.whenDue(), { name: 'IndexStorageError' })
})

test('the writer of an index keeps its log short', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'index-checkpoint-'))
  const path = join(directory.path, 'index.sqlite')
  await using writer = await openIndexWriter(path)
  const value = 'x'.repeat(10_000_000)
  for (let at = 0n; at < 14n; at++)
    await writer.write((batch) => batch.put('policies', [{ name: String(at), value }]))
  const megabytes = Math.round(logBytes(path) / 1e6)
  assert.ok(megabytes < 100, `${megabytes} MB of log after 140 MB`)
})
