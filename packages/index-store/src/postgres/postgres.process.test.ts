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
import { Kysely, PostgresDialect, type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { earlierItem, earlierRecord, makeEarlier } from '../../tests/earlier-schema.ts'
import { did, fill, limits, selection, timesOf, viewer } from '../../tests/filled-index.ts'
import { openGenerations, openIndexReader, openIndexWriter } from '../open-index.ts'
import type { Selection } from '../select/selection.ts'
import { recentOf } from '../select/window.ts'
import type { TableName } from '../tables.ts'
import { awardStatesOf } from '../write/classification.ts'
import { compiled, postgresDialect } from './dialect.ts'
import { pageOf } from './entries.ts'
import { noticeLoss } from './lost-clients.ts'
import { planSettings } from './plan-settings.ts'

let server: Postgres
before(async () => {
  server = await Postgres.start()
})
after(() => server[Symbol.asyncDispose]())

/** A connection of an operator. */
async function connect(database: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: server.urlOf(database) })
  await client.connect()
  return client
}

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

async function newDatabase(name: string, how = ''): Promise<string> {
  const client = await connect('postgres')
  await client.query(`create database ${name} ${how}`)
  await client.end()
  return server.urlOf(name)
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
  assert.equal(await generations.keepOnly([2]), true)
  assert.deepEqual(await timesOf(reader), [2])
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

const below = { feedTime: 1_000n, uri: 'at://did:plc:alice/a.b.c/1' }
const plans: Record<string, Partial<Selection>> = {
  'the first page': {},
  'a later page': { after: below },
  'a page with a quality rule': { after: below, quality: { allowed: ['draft'], includeUnrated: true } },
  'a page of one kind': { kinds: ['cert.create'] },
  'a page of some kinds': { kinds: ['cert.create', 'update.create'] },
}

/** The plan that a reader has of a statement, whatever its values are. */
async function planOf(operator: pg.Client, statement: RawBuilder<unknown>): Promise<string> {
  const { text } = compiled(statement)
  const { rows } = await operator.query<Record<string, unknown>>(`explain (generic_plan) ${text}`)
  return rows.map((row) => String(row['QUERY PLAN'])).join('\n')
}

test('pages are read by the indexes that hold each account in feed order, and no table is read whole', async () => {
  const url = await newDatabase('plans')
  await using writer = await openIndexWriter(url)
  const authors = Array.from({ length: 500 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.slice(0, 100).map((author) => ['follows', viewer, author]),
    entries: authors.flatMap((author) =>
      Array.from({ length: 40 }, (_, time): [typeof author, bigint] => [author, BigInt(time)]),
    ),
  })
  const operator = await connect('plans')
  await operator.query('analyze')
  await operator.query(['begin', ...planSettings].join(';'))
  for (const [what, more] of Object.entries(plans)) {
    const statement = pageOf({ dialect: postgresDialect }, { ...selection, ...more })
    const plan = await planOf(operator, statement)
    assert.match(plan, /Index Only Scan using "?entriesByAuthor/, `${what}:\n${plan}`)
    assert.doesNotMatch(plan, /Seq Scan on entries|hashed SubPlan|Hash Join/, `${what}:\n${plan}`)
  }
  await operator.end()
})

test('windows are read by the index of times, and their authors are looked up by the index of follows', async () => {
  const url = await newDatabase('window_plans')
  await using writer = await openIndexWriter(url)
  const authors = Array.from({ length: 5000 }, (_, index) => did(index))
  await fill(writer, {
    follows: authors.map((author) => ['follows', viewer, author]),
    entries: authors.flatMap((author, at) =>
      Array.from({ length: 4 }, (_, nth): [typeof author, bigint] => [author, BigInt(nth * 5000 + at)]),
    ),
  })
  const operator = await connect('window_plans')
  await operator.query('analyze')
  await operator.query(['begin', ...planSettings].join(';'))
  const byTime = /Index Only Scan using "entriesByTime"/
  const after = { ...below, feedTime: 15_000n }
  for (const [what, more] of Object.entries({
    ...plans,
    'a page with evaluators': { evaluators: [did(1)] },
  })) {
    const wanted = { ...selection, ...more, ...('after' in more && { after }) }
    const window = await planOf(operator, recentOf({ dialect: postgresDialect }, wanted, 1000))
    assert.match(window, byTime, `${what}:\n${window}`)
    assert.doesNotMatch(window, /hashed SubPlan|Hash Join/, `${what}:\n${window}`)
    assert.match(
      window,
      /Index Only Scan using "followsByViewer".*\n.*subject = recent\.did/,
      `${what}:\n${window}`,
    )
  }
  await operator.end()
})

test('the newest answer to an award is found without reading or sorting the others', async () => {
  const url = await newDatabase('answers')
  await using writer = await openIndexWriter(url)
  await writer.write((batch) =>
    batch.put(
      'responses',
      Array.from({ length: 2000 }, (_, index) => ({
        uri: `at://${did(1)}/a.b.c/${index}`,
        did: did(1),
        awardUri: 'at://x/y/z',
        awardCid: 'bafy',
        rejected: 0n,
        feedTime: BigInt(index % 7),
        indexedAt: 1n,
      })),
    ),
  )
  const operator = await connect('answers')
  await operator.query('analyze')
  const statement = awardStatesOf({ dialect: postgresDialect }, ['at://x/y/z'])
  const { rows } = await operator.query(compiled(sql`explain ${statement}`))
  const plan = rows.map((row) => String(row['QUERY PLAN'])).join('\n')
  assert.match(plan, /Index Scan using "responsesByAward"/, plan)
  assert.doesNotMatch(plan, /Sort/, plan)
  await operator.end()
})

test('what a writer looks for is found by indexes, also when its first statements ran on empty tables', async () => {
  const url = await newDatabase('writer_plans')
  const uris = Array.from({ length: 4000 }, (_, at) => `at://did:plc:a/org.x/${at}`)
  {
    await using writer = await openIndexWriter(url)
    for (let at = 0; at < uris.length; at += 200) {
      const some = uris.slice(at, at + 200)
      await writer.write(async (batch) => {
        await batch.load('entries', some)
        await batch.put(
          'entries',
          some.map((uri) => ({ uri, did: viewer, kind: 'cert.create', feedTime: 1n })),
        )
      })
    }
  }
  const operator = await connect('writer_plans')
  let told: Record<string, string> = {}
  // A session tells what it did when it ends.
  await eventually(async () => {
    const { rows } = await operator.query<Record<string, string>>(
      `select "n_tup_ins" as "written", "seq_tup_read" as "read" from pg_stat_user_tables where "relname" = 'entries'`,
    )
    told = rows[0] ?? {}
    return told['written'] === String(uris.length)
  })
  assert.equal(told['read'], '0')
  await operator.end()
})
