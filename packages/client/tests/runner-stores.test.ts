/** What every store of a runner promises, and what its own kind does besides. */
import assert from 'node:assert/strict'
import { constants } from 'node:buffer'
import { appendFile, mkdtempDisposable, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { Postgres } from '@tributary/testkit'
import Sqlite from 'better-sqlite3'
import pg from 'pg'
import {
  type ClientEvent,
  FileStore,
  MemoryStore,
  type ParkedEvent,
  PostgresStore,
  type RunnerStore,
  SqliteStore,
} from '../src/node.ts'
import { eventOf, row } from './stream-server.ts'

const server = 'https://stream.example'

async function parkedEvent(seq: number, title: string): Promise<ParkedEvent> {
  const event: ClientEvent = await eventOf(row(seq))
  return { event, reason: 'handler-failed', attempts: 3, detail: title }
}

/** @param reopen gives the store of another process on the same data. */
async function assertPromises(reopen: () => Promise<RunnerStore>): Promise<void> {
  const store = await reopen()
  assert.equal(await store.load(), undefined)
  assert.deepEqual(await store.parked(), [])
  await store.save(41)
  await store.save(9_007_199_254_740_991)
  await store.save(40)
  assert.equal(await (await reopen()).load(), 9_007_199_254_740_991, 'it never goes back')

  const [first, second, again] = await Promise.all([
    parkedEvent(7, 'a line\nand\u0000 a sign'),
    parkedEvent(12, 'no'),
    parkedEvent(7, 'no again'),
  ])
  await Promise.all([store.park(second), store.park(first)])
  assert.deepEqual(await (await reopen()).parked(), [first, second], 'in the order of seq')
  const other = await reopen()
  await other.park(again)
  assert.deepEqual(await (await reopen()).parked(), [again, second])
  await other.unpark(7)
  await other.unpark(99)
  assert.deepEqual(await (await reopen()).parked(), [second])
}

test('a memory store keeps its promises while it lives', async () => {
  const store = new MemoryStore()
  await assertPromises(async () => store)
})

test('a file store keeps its promises, belongs to one server, and leaves out a line that was cut off', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'runner-'))
  const path = join(directory.path, 'cursor')
  await assertPromises(async () => new FileStore(path, server))
  await assert.rejects(new FileStore(path, 'https://other.example').load(), { name: 'CursorStoreError' })

  const file = `${path}.parked`
  assert.equal((await readFile(file, 'utf8')).split('\n').length, 2, 'a start writes only what is parked')
  await appendFile(file, '{"parked":{"event":{"seq":13,')
  const store = new FileStore(path, server)
  assert.deepEqual(
    (await store.parked()).map(({ event }) => event.seq),
    [12],
  )
  await store.park(await parkedEvent(14, 'after it'))
  assert.equal((await new FileStore(path, server).parked()).length, 2)
  for (const damaged of ['{}\n', 'x\n', '{"parked":{}}\n']) {
    await writeFile(file, damaged)
    await assert.rejects(new FileStore(path, server).parked(), { name: 'CursorStoreError' })
  }
})

test('what is parked in a file may be more than a string can hold, in lines of any length', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'runner-'))
  const path = join(directory.path, 'cursor')
  const file = `${path}.parked`
  const parked = [await parkedEvent(3, 'ä\u2028€\r'.repeat(700_000)), await parkedEvent(4, '')]
  for (const each of parked) await new FileStore(path, server).park(each)
  const long = `{"unparked":1,"of":"${'x'.repeat(16 * 1_048_576)}"}\n`
  for (let length = 0; length <= constants.MAX_STRING_LENGTH; length += long.length)
    await appendFile(file, long)
  assert.deepEqual(await new FileStore(path, server).parked(), parked)
  assert.deepEqual(await new FileStore(path, server).parked(), parked, 'as it was written again')
})

test('an SQLite store keeps its promises, a cursor for each consumer', async () => {
  using database = new DatabaseSync(':memory:')
  await assertPromises(async () => new SqliteStore(database, { server }))
  await assertPromises(async () => new SqliteStore(database, { server, consumer: 'another' }))
  const foreign = new SqliteStore(database, { server: 'https://other.example' })
  await assert.rejects(foreign.load(), /holds a cursor of https:\/\/stream\.example/)
  database.exec(`update tributary_parked set parked = '{'`)
  await assert.rejects(new SqliteStore(database, { server }).parked(), { name: 'CursorStoreError' })
})

test('a database of better-sqlite3 that gives integers as bigint keeps the promises of a store', async () => {
  const database = new Sqlite(':memory:').defaultSafeIntegers(true)
  try {
    await assertPromises(async () => new SqliteStore(database, { server }))
  } finally {
    database.close()
  }
})

test('a PostgreSQL store keeps its promises, a cursor for each consumer', async () => {
  await using postgres = await Postgres.start()
  const pool = new pg.Pool({ connectionString: postgres.urlOf('postgres') })
  // A connection may still be closing when the server ends, which tells it so.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  try {
    const opened = [1, 2, 3].map(async () => await PostgresStore.open(pool, { server }))
    await Promise.all(opened)
    await assertPromises(async () => await PostgresStore.open(pool, { server }))
    await assertPromises(async () => await PostgresStore.open(pool, { server, consumer: 'another' }))
    const foreign = await PostgresStore.open(pool, { server: 'https://other.example' })
    await assert.rejects(foreign.load(), /holds a cursor of https:\/\/stream\.example/)
  } finally {
    await pool.end()
  }
})
