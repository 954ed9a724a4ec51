/** What is PostgreSQL's own; and the suite of both databases, on it. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import {
  eventually,
  inTime,
  Postgres,
  PostgresPooler,
  PostgresProxy,
  testOnPostgres,
} from '@tributary/testkit'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { earlierItem, earlierRecord, makeEarlier } from '../../tests/earlier-schema.ts'
import { did, fill, limits, selection, timesOf, viewer } from '../../tests/filled-index.ts'
import { connectAs, createDatabase } from '../../tests/operator.ts'
import { openGenerations, openIndexReader, openIndexWriter } from '../open-index.ts'
import type { TableName } from '../tables.ts'
import { noticeLoss } from './lost-clients.ts'

let server: Postgres
before(async () => {
  server = await Postgres.start()
})
after(() => server[Symbol.asyncDispose]())

const connect = (database: string): Promise<pg.Client> => connectAs(server, database)
const newDatabase = (name: string, how?: string): Promise<string> => createDatabase(server, name, how)

/** Resolves when somebody waits for a lock. */
async function somebodyWaits(operator: pg.Client): Promise<void> {
  const isWaiting = async (): Promise<boolean> => {
    const { rows } = await operator.query('select 1 from pg_locks where not granted')
    return rows.length > 0
  }
  while (!(await isWaiting()));
}

/** Resolves when nobody waits for a lock, which another still holds. */
async function nobodyWaits(operator: pg.Client): Promise<void> {
  await eventually(async () => {
    const { rows } = await operator.query('select 1 from pg_locks where not granted')
    return rows.length === 0
  })
}

/** Runs statements of an operator. */
async function operate(database: string, statements: string): Promise<void> {
  const client = await connect(database)
  await client.query(statements)
  await client.end()
}

test('the suite of both databases passes', async () => {
  const files = ['write/batch.test.ts', 'reader.test.ts', 'generations.test.ts', 'select/window.test.ts']
  await testOnPostgres(
    async (url) => (await openIndexWriter(url))[Symbol.asyncDispose](),
    files.map((file) => join(import.meta.dirname, '..', file)),
    server,
  )
})

test('a database has one writer, and another one when the first is gone', async () => {
  const url = await newDatabase('one_writer')
  {
    await using _first = await openIndexWriter(url)
    await assert.rejects(openIndexWriter(url), { name: 'IndexStorageError', message: /another index/ })
  }
  await using second = await openIndexWriter(url)
  await second.write((batch) => batch.put('cursors', [{ source: 'stream:x', cursor: 1n }]))
})

test('an index that is at home in another schema of the database is refused while one writes', async () => {
  const url = await newDatabase('two_homes')
  await operate('two_homes', 'create schema other')
  const other = `${url}&options=-csearch_path%3Dother`
  {
    await using _next = await openIndexWriter(url, { generation: 2 })
    await assert.rejects(openIndexWriter(other), { name: 'IndexStorageError', message: /another index/ })
  }
  await using _other = await openIndexWriter(other)
})

test('tables of another program, in another schema, are not taken for those of the index', async () => {
  const url = await newDatabase('another_program')
  await operate(
    'another_program',
    'create schema other; create table other.kysely_migration (a text); create table other.kysely_migration_lock (a text)',
  )
  await using writer = await openIndexWriter(url)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('cursors')), [])
})

test('a database whose encoding does not hold every text is refused', async () => {
  const url = await newDatabase('latin', `template template0 encoding 'LATIN1'`)
  await assert.rejects(openIndexWriter(url), { name: 'IndexStorageError', message: /encoding LATIN1/ })
})

test('generations of an index whose URL sets a search path are apart from each other', async () => {
  const url = await newDatabase('own_path')
  await operate('own_path', 'create schema "Mine"')
  const place = `${url}&options=-c%20search_path%3D%22Mine%22%20-c%20work_mem%3D8MB`
  for (const generation of [1, 2]) {
    await using writer = await openIndexWriter(place, { generation })
    await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), BigInt(generation)]] })
  }
  await using generations = openGenerations(place)
  await using reader = openIndexReader(place)
  assert.deepEqual(await timesOf(reader), [1])
  await generations.switchTo(2)
  assert.deepEqual(await timesOf(reader), [2])
  assert.equal(await generations.keepOnly([2]), undefined)
  assert.deepEqual(await timesOf(reader), [2])
})

test('what others have in the search path is not removed with a generation', async () => {
  const url = await newDatabase('other_tables')
  await operate(
    'other_tables',
    'create schema mine; create table public.records (a text); create table public.cursors (a text)',
  )
  const place = `${url}&options=-csearch_path%3Dmine,public`
  for (const generation of [1, 2]) await (await openIndexWriter(place, { generation }))[Symbol.asyncDispose]()
  await using generations = openGenerations(place)
  await generations.switchTo(2)
  for (const _ of ['first', 'again']) {
    assert.equal(await generations.keepOnly([2]), undefined)
    assert.deepEqual(await generations.progress(), [{ generation: 2, cursor: 0 }])
  }
  await operate('other_tables', 'select a from public.records; select a from public.cursors')
})

test('views on the tables of a generation go with it, and a schema with the day of a copy stays', async () => {
  const url = await newDatabase('views')
  for (const generation of [1, 2]) await (await openIndexWriter(url, { generation }))[Symbol.asyncDispose]()
  await operate(
    'views',
    `create schema mine; create schema tributary_index_20261127;
     create view mine.records as select * from public.records;
     create view mine.visible as select * from public."visibleRecords"`,
  )
  await using generations = openGenerations(url)
  await generations.switchTo(2)
  assert.equal(await generations.keepOnly([2]), undefined)
  assert.deepEqual(await generations.progress(), [{ generation: 2, cursor: 0 }])
  await operate('views', 'create table tributary_index_20261127.mine (a text)')
})

test('a generation that the server does not let go is told, and goes later, and others go meanwhile', async () => {
  const url = await newDatabase('refusing')
  for (const generation of [1, 2, 3])
    await (await openIndexWriter(url, { generation }))[Symbol.asyncDispose]()
  await operate(
    'refusing',
    `create function refuse() returns event_trigger language plpgsql as $$ begin
       if exists (select from pg_event_trigger_dropped_objects() where schema_name = 'public') then
         raise exception 'the operator keeps it'; end if; end $$;
     create event trigger refuse on sql_drop execute function refuse()`,
  )
  await using generations = openGenerations(url)
  await generations.switchTo(3)
  assert.match((await generations.keepOnly([3]))?.message ?? '', /the operator keeps it/)
  assert.deepEqual(
    (await generations.progress()).map(({ generation }) => generation),
    [1, 3],
  )
  await operate('refusing', 'drop event trigger refuse')
  assert.equal(await generations.keepOnly([3]), undefined)
  assert.deepEqual(await generations.progress(), [{ generation: 3, cursor: 0 }])
})

test('a generation whose lock somebody holds is told, and goes when they are through', async () => {
  const url = await newDatabase('locked')
  for (const generation of [1, 2]) await (await openIndexWriter(url, { generation }))[Symbol.asyncDispose]()
  const operator = await connect('locked')
  await operator.query('begin; select 1 from public.records')
  await using generations = openGenerations(url)
  await generations.switchTo(2)
  assert.match((await generations.keepOnly([2]))?.message ?? '', /lock timeout/)
  await operator.end()
  await eventually(async () => (await generations.keepOnly([2])) === undefined)
})

test('a role that may read the present generation may read the next one', async () => {
  const url = await newDatabase('grants')
  await using _present = await openIndexWriter(url)
  await operate(
    'grants',
    'create role "The Feed" login; grant select on all tables in schema public to "The Feed"',
  )
  await using next = await openIndexWriter(url, { generation: 2 })
  await fill(next, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 2n]] })
  await using generations = openGenerations(url)
  await generations.switchTo(2)
  await using reader = openIndexReader(url.replace(/\/\/[^@]*@/, '//The%20Feed@'))
  assert.deepEqual(await timesOf(reader), [2])
})

test('a database of an earlier version is brought to the present schema with its records', async () => {
  const url = await newDatabase('earlier')
  {
    const pool = new pg.Pool({ connectionString: url })
    await using db = new Kysely({ dialect: new PostgresDialect({ pool }) })
    await makeEarlier(db, 'postgres')
  }
  await using writer = await openIndexWriter(url)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('records')), [earlierRecord])
  assert.deepEqual(await writer.write((batch) => batch.loadAll('visibleRecords' as TableName)), [
    earlierRecord,
  ]) // the view is read like a table
  assert.deepEqual(await writer.write((batch) => batch.loadAll('collectionItems')), [earlierItem])
})

test('a connection that is lost is a fault of the storage, and nothing of its transaction has happened', async () => {
  const url = await newDatabase('lost')
  const operator = await connect('lost')
  const lost = await openIndexWriter(url)
  const writing = lost.write(async (batch) => {
    await batch.put('cursors', [{ source: 'stream:x', cursor: 1n }])
    await operator.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tributary index'",
    )
    await batch.put('cursors', [{ source: 'stream:y', cursor: 1n }])
  })
  await assert.rejects(writing, { name: 'IndexStorageError' })
  await assert.rejects(
    lost.write((batch) => batch.loadAll('cursors')),
    { name: 'IndexStorageError' },
  )
  await using writer = await openIndexWriter(url)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('cursors')), [])
  await operator.end()
})

test('a server that is silent is a fault of the storage', async () => {
  const url = await newDatabase('silent_writer')
  await using proxy = await PostgresProxy.start(url)
  const writer = await openIndexWriter(proxy.url, { answerMs: 2000 })
  await writer.write((batch) => batch.put('cursors', [{ source: 'stream:x', cursor: 1n }]))
  proxy.isSilent = true
  const writing = writer.write((batch) => batch.loadAll('cursors'))
  await assert.rejects(inTime(writing), { name: 'IndexStorageError' })
})

test('a writer that is gone while it waits for a lock of others leaves its own', async () => {
  const url = await newDatabase('gone_waiting')
  await using proxy = await PostgresProxy.start(url)
  await using lost = await openIndexWriter(proxy.url)
  const operator = await connect('gone_waiting')
  await operator.query('begin; lock table cursors in access exclusive mode')
  const writing = lost.write((batch) => batch.loadAll('cursors'))
  await somebodyWaits(operator)
  proxy.cut()
  await assert.rejects(writing, { name: 'IndexStorageError' })
  await eventually(async () => {
    const { rows } = await operator.query("select 1 from pg_locks where locktype = 'advisory'")
    return rows.length === 0
  })
  await operator.end()
})

test('an index is refused behind a pooler that gives each transaction another session', async () => {
  await using pooler = await PostgresPooler.start(await newDatabase('pooled'))
  await assert.rejects(openIndexWriter(pooler.url), { name: 'IndexStorageError', message: /pooler/ })
})

test('an index behind a pooler goes on for as long as it keeps its session', async () => {
  await using pooler = await PostgresPooler.start(await newDatabase('pooled_sessions'))
  pooler.isPerTransaction = false
  await using writer = await openIndexWriter(pooler.url)
  await writer.write((batch) => batch.put('cursors', [{ source: 'stream:x', cursor: 1n }]))
  pooler.isPerTransaction = true
  assert.equal((await writer.write((batch) => batch.loadAll('cursors'))).length, 1)
  const other = new pg.Client({ connectionString: pooler.url })
  await other.connect()
  await other.query('begin')
  const writing = writer.write((batch) => batch.loadAll('cursors'))
  await assert.rejects(writing, { name: 'IndexStorageError', message: /pooler/ })
  await other.end()
})

test('a server asks a client whether it is there within a minute', async () => {
  await using onLoopback = await Postgres.start({ isOnLoopback: true })
  const client = new pg.Client({ connectionString: onLoopback.loopbackUrlOf('postgres') })
  await client.connect()
  await noticeLoss(client)
  const { rows } = await client.query<Record<string, number>>(`select
    current_setting('tcp_keepalives_idle')::int as idle, current_setting('tcp_keepalives_count')::int as count,
    current_setting('tcp_keepalives_interval')::int as interval,
    (select setting::int from pg_settings where name = 'tcp_user_timeout') as unconfirmed`)
  assert.deepEqual(rows, [{ idle: 20, count: 4, interval: 10, unconfirmed: 60_000 }])
  await client.end()
})

test('a row that is too long for an index is a fault of that row, and not of the storage', async () => {
  await using writer = await openIndexWriter(await newDatabase('too_long'))
  const noise = createHash('shake256', { outputLength: 3000 }).digest('base64')
  await assert.rejects(
    writer.write((batch) => batch.put('cursors', [{ source: noise, cursor: 1n }])),
    { name: 'error', code: '54000' },
  )
  await writer.write((batch) => batch.put('cursors', [{ source: 'stream:x', cursor: 1n }]))
})

test('rows of one key that are put at once are a fault of those rows, and not of the storage', async () => {
  await using writer = await openIndexWriter(await newDatabase('twice'))
  const row = { source: 'stream:x', cursor: 1n }
  await assert.rejects(
    writer.write((batch) => batch.put('cursors', [row, row])),
    { name: 'error', code: '21000' },
  )
  await writer.write((batch) => batch.put('cursors', [row]))
})

test('tables that pages begin with are vacuumed long before a fifth of their rows is removed', async () => {
  const url = await newDatabase('vacuumed')
  await using _writer = await openIndexWriter(url)
  const operator = await connect('vacuumed')
  const { rows } = await operator.query<{ name: string }>(
    `select relname as "name" from pg_class where 'autovacuum_vacuum_scale_factor=0.01' = any(reloptions) order by 1`,
  )
  await operator.end()
  assert.deepEqual(
    rows.map(({ name }) => name),
    ['awards', 'endorsements', 'entries', 'follows', 'records', 'views'],
  )
})

test('a database that a newer index has written is refused', async () => {
  const url = await newDatabase('newer')
  {
    await using _writer = await openIndexWriter(url)
  }
  const operator = await connect('newer')
  await operator.query("insert into kysely_migration values ('9999-later', '9999-01-01T00:00:00.000Z')")
  await operator.end()
  await assert.rejects(openIndexWriter(url), {
    message: /has schema 9999-later.*: a newer index has written it/,
  })
})

test('a reader waits for the tables, and tells a schema that it does not read', async () => {
  const url = await newDatabase('not_ready')
  await using reader = openIndexReader(url)
  await assert.rejects(timesOf(reader), { name: 'IndexNotReadyError' })
  await using writer = await openIndexWriter(url)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 2n ** 62n]] })
  assert.deepEqual(await timesOf(reader), [2 ** 62])
  const operator = await connect('not_ready')
  await operator.query("insert into kysely_migration values ('9999-later', '')")
  await assert.rejects(timesOf(reader), { name: 'IndexNotReadyError', message: /9999-later/ })
  await operator.end()
})

test('a statement that takes too long is ended by the server, and one whose caller has gone is cancelled', async () => {
  const url = await newDatabase('slow')
  await using writer = await openIndexWriter(url)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await using reader = openIndexReader(url)
  assert.deepEqual(await timesOf(reader), [1])
  const operator = await connect('slow')
  const held = operator.query('begin; lock table entries in access exclusive mode')
  await held
  await assert.rejects(
    reader.snapshot({ timeoutMs: 200 }, (view) => view.entries(selection)),
    { name: 'ReadTimeoutError' },
  )
  await nobodyWaits(operator)
  const caller = new AbortController()
  const reading = reader.snapshot({ ...limits, signal: caller.signal }, (view) => view.entries(selection))
  await somebodyWaits(operator)
  caller.abort(new Error('gone'))
  await assert.rejects(reading, { message: 'gone' })
  await nobodyWaits(operator)
  await operator.query('rollback')
  await operator.end()
  assert.deepEqual(await timesOf(reader), [1])
})

test('a connection that breaks while a page is read costs that page', async () => {
  const url = await newDatabase('broken')
  await using writer = await openIndexWriter(url)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await using proxy = await PostgresProxy.start(url)
  await using reader = openIndexReader(proxy.url)
  const operator = await connect('broken')
  await operator.query('begin; lock table entries in access exclusive mode')
  const reading = reader.snapshot(limits, (view) => view.entries(selection))
  await somebodyWaits(operator)
  proxy.cut()
  await assert.rejects(reading, { name: 'IndexStorageError' })
  await operator.query('rollback')
  await operator.end()
  assert.deepEqual(await timesOf(reader), [1])
})

test('a server that is silent ends pages when their time is over, also before they began', async () => {
  const url = await newDatabase('silent')
  await using writer = await openIndexWriter(url)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await using proxy = await PostgresProxy.start(url)
  await using reader = openIndexReader(proxy.url)
  assert.deepEqual(await timesOf(reader), [1])
  const operator = await connect('silent')
  await eventually(async () => {
    const { rows } = await operator.query(
      "select 1 from pg_stat_activity where application_name = 'tributary feed' and state = 'idle'",
    )
    return rows.length === 1
  })
  await operator.end()
  proxy.isSilent = true
  // Of the connection that is there, and of a new one.
  const readLate = async (): Promise<void> => {
    const reading = reader.snapshot({ timeoutMs: 200 }, (view) => view.entries(selection))
    await assert.rejects(inTime(reading), { name: 'ReadTimeoutError' })
  }
  await Promise.all([readLate(), readLate()])
  const caller = new AbortController()
  const gone = reader.snapshot({ timeoutMs: 200, signal: caller.signal }, (view) => view.entries(selection))
  caller.abort(new Error('gone'))
  await assert.rejects(inTime(gone))
  proxy.isSilent = false
  assert.deepEqual(await timesOf(reader), [1])
  // The reader does not wait for the new connection, which was told nothing, before it ends.
  proxy.cut()
})

test('pages are read behind a pooler that gives a transaction another session', async () => {
  const url = await newDatabase('pooled_pages')
  await using writer = await openIndexWriter(url)
  await fill(writer, { follows: [['follows', viewer, did(1)]], entries: [[did(1), 1n]] })
  await using pooler = await PostgresPooler.start(url)
  await using reader = openIndexReader(pooler.url)
  assert.deepEqual(await timesOf(reader), [1])
  const other = new pg.Client({ connectionString: pooler.url })
  await other.connect()
  await other.query('begin')
  assert.deepEqual(await timesOf(reader), [1])
  await other.end()
})

test('a page of fewer accounts than entries holds old entries of each', async () => {
  const url = await newDatabase('few_accounts')
  await using writer = await openIndexWriter(url)
  const times: [number, bigint][] = [
    [1, 9n],
    [1, 8n],
    [1, 2n],
    [2, 5n],
    [2, 1n],
  ]
  await fill(writer, {
    follows: [1, 2].map((author) => ['follows', viewer, did(author)]),
    entries: times.map(([author, time]) => [did(author), time]),
  })
  await using reader = openIndexReader(url)
  assert.deepEqual(await timesOf(reader, { limit: 4 }), [9, 8, 5, 2])
  assert.deepEqual(await timesOf(reader, { limit: 2 }), [9, 8])
})
