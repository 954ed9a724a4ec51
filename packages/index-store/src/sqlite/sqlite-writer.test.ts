import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { test } from 'node:test'
import Sqlite from 'better-sqlite3'
import { Kysely, sql, SqliteDialect } from 'kysely'
import { earlierItem, earlierRecord, makeEarlier, migrateTo } from '../../tests/earlier-schema.ts'
import { openIndexWriter } from '../open-index.ts'
import type { TableName } from '../tables.ts'
import { activityStatesOf, awardStatesOf, namings, pageNaming } from '../write/classification.ts'
import { compiled, sqliteDialect } from './dialect.ts'

const cursor = { source: 'stream:x', cursor: 5n }

test('opening again keeps the data', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  {
    await using writer = await openIndexWriter(path)
    await writer.write((batch) => batch.put('cursors', [cursor]))
  }
  await using writer = await openIndexWriter(path)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('cursors')), [cursor])
})

test('what was made durable needs no log, which a power cut may take', async (t) => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const [path, copy] = [join(directory.path, 'index.sqlite'), join(directory.path, 'copy.sqlite')]
  const pragma = t.mock.method(Sqlite.prototype, 'pragma')
  await using writer = await openIndexWriter(path)
  await writer.write((batch) => batch.put('cursors', [cursor]))
  await writer.makeDurable()
  await copyFile(path, copy)
  await using after = await openIndexWriter(copy)
  assert.deepEqual(await after.write((batch) => batch.loadAll('cursors')), [cursor])
  const db = pragma.mock.calls[0]?.this as Sqlite.Database | undefined // the one that the writer opened
  assert.equal(Number(db?.pragma('synchronous', { simple: true })), 1, 'NORMAL: SQLite syncs both files')
})

test('a database of an earlier version is brought to the present schema with its records', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  {
    await using db = new Kysely({ dialect: new SqliteDialect({ database: new Sqlite(path) }) })
    await makeEarlier(db, 'sqlite')
  }
  await using writer = await openIndexWriter(path)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('records')), [earlierRecord])
  assert.deepEqual(await writer.write((batch) => batch.loadAll('visibleRecords' as TableName)), [
    earlierRecord,
  ]) // the view is read like a table
  assert.deepEqual(await writer.write((batch) => batch.loadAll('collectionItems')), [earlierItem])
  using sqlite = new DatabaseSync(path)
  const columns = sqlite.prepare('select name from pragma_table_info(?)').all('records')
  assert.equal(columns.at(-1)?.['name'], 'json', 'what comes after the text is read through it')
})

test('accounts that waited to be hidden before an update come first', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  {
    await using db = new Kysely({ dialect: new SqliteDialect({ database: new Sqlite(path) }) })
    await migrateTo(db, 'sqlite', '0017-remakes')
    await sql`insert into "accounts" ("did", "status", "statusSeq", "hidden", "checkedAt", "isAuthor")
      values ('gone', 'takendown', 1, 1, 0, 1), ('writes', 'takendown', 1, 1, 0, 1), ('back', 'active', 1, 0, 0, 1)`.execute(
      db,
    )
    const columns = sql`"did", "seq", "place", "version", "accountVersion", "isDefiner", "isLister", "contents", "failures"`
    await sql`insert into "remakes" (${columns}) values ('back', 1, 1, 1, 1, 0, 0, '{}', 0),
      ('writes', 1, 2, 1, 0, 1, 0, '{}', 0), ('gone', 1, 3, 1, 1, 0, 0, '{}', 0)`.execute(db)
  }
  await using writer = await openIndexWriter(path)
  const waiting = await writer.write((batch) => batch.loadAll('remakes'))
  assert.deepEqual(
    waiting.filter(({ isHiding }) => isHiding === 1n).map(({ did }) => String(did)),
    ['gone'],
  )
})

test('a migration that does not come to its end changes nothing, and can be run again', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  // In the way of a later table, so that the earlier ones have been made by then.
  using obstacle = new DatabaseSync(path)
  obstacle.exec('create table awards (x)')
  await assert.rejects(openIndexWriter(path), /could not be migrated/)
  assert.deepEqual(obstacle.prepare('select name from sqlite_schema').all().length, 1)
  obstacle.exec('drop table awards')
  await using writer = await openIndexWriter(path)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('records')), [])
})

test('a database that a newer index has written is refused, and left as it is', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  {
    await using writer = await openIndexWriter(path)
    await writer.write((batch) => batch.put('cursors', [cursor]))
  }
  const change = (statement: string): void => {
    using file = new DatabaseSync(path)
    file.exec(statement)
  }
  change("insert into kysely_migration values ('9999-later', '9999-01-01T00:00:00.000Z')")
  const refused = {
    message: /has schema 9999-later, and this index knows none after \d{4}-\S+: a newer index/,
  }
  await assert.rejects(openIndexWriter(path), refused)
  change("delete from kysely_migration where name = '9999-later'")
  await using writer = await openIndexWriter(path)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('cursors')), [cursor])
})

test('a database that cannot be written is a fault of the storage, and a value that it cannot take is not', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using writer = await openIndexWriter(path)
  const put = (row: object): Promise<void> =>
    writer.write((batch) => batch.put('cursors', [row as typeof cursor])) // as no caller makes it
  await assert.rejects(put({ source: null, cursor: 5n }), { code: 'SQLITE_CONSTRAINT_NOTNULL' })
  await assert.rejects(put({ source: 'x', cursor: Symbol('x') }), TypeError)
  using other = new DatabaseSync(path)
  other.exec('drop table cursors')
  await assert.rejects(put(cursor), { name: 'IndexStorageError' })
})

test('a database has one writer, and the lock of a writer that was killed does not stay', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  const refused = { name: 'IndexStorageError', message: /another index writes .*; stop it first/ }
  {
    await using _writer = await openIndexWriter(path)
    await assert.rejects(openIndexWriter(path), refused)
  }
  const store = JSON.stringify(new URL('../open-index.ts', import.meta.url).href)
  const program = `const { openIndexWriter } = await import(${store}); await openIndexWriter(process.argv[1])
    console.log('open'); setInterval(() => undefined, 60_000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  try {
    await once(child.stdout, 'data')
    await assert.rejects(openIndexWriter(path), refused)
  } finally {
    child.kill('SIGKILL')
    await ended
  }
  await using writer = await openIndexWriter(path)
  assert.deepEqual(await writer.write((batch) => batch.loadAll('records')), [])
})

test('readers see nothing of a transaction before its end', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using writer = await openIndexWriter(path, { turnMs: 0 })
  using other = new DatabaseSync(path, { readOnly: true })
  const seen = () => other.prepare('select count(*) as n from cursors').get()?.['n']
  await writer.write(async (batch) => {
    await batch.put('cursors', [cursor, { source: 'stream:y', cursor: 1n }])
    assert.equal(seen(), 0)
  })
  assert.equal(seen(), 2)
})

test('the collections near an activity in time are found without reading the others that list it', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using _writer = await openIndexWriter(path)
  using reader = new DatabaseSync(path, { readOnly: true })
  const statement = activityStatesOf({ dialect: sqliteDialect }, ['at://x/y/z'])
  const { text, parameters } = compiled(sql`explain query plan ${statement}`)
  const rows = reader.prepare(text).all(...(parameters as string[])) // one list
  const plan = rows.map((row) => String(row['detail'])).join('\n')
  assert.match(
    plan,
    /INDEX collectionItemsByActivity \(activityUri=\? AND activityCid=\? AND feedTime>\? AND feedTime<\?\)/,
    plan,
  )
})

test('the newest answer to an award is found without reading or sorting the others', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using _writer = await openIndexWriter(path)
  using reader = new DatabaseSync(path, { readOnly: true })
  const statement = awardStatesOf({ dialect: sqliteDialect }, ['at://x/y/z'])
  const { text, parameters } = compiled(sql`explain query plan ${statement}`)
  const rows = reader.prepare(text).all(...(parameters as string[])) // one list
  const plan = rows.map((row) => String(row['detail'])).join('\n')
  assert.match(
    plan,
    /SEARCH answer USING INDEX responsesByAward \(awardUri=\? AND awardCid=\? AND did=\?\)/,
    plan,
  )
  assert.doesNotMatch(plan, /TEMP B-TREE/, plan)
})

test('what names a content is read in pages, none of which reads or sorts the others', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using _writer = await openIndexWriter(path)
  using reader = new DatabaseSync(path, { readOnly: true })
  const last = { uri: 'at://x/y/z', feedTime: 1n, collectionUri: 'at://x/y/z' }
  for (const naming of Object.values(namings)) {
    const statement = pageNaming(naming, { uri: 'at://x/y/z', cid: 'bafy' }, last)
    const { text, parameters } = compiled(sql`explain query plan ${statement}`)
    const rows = reader.prepare(text).all(...(parameters as SQLInputValue[])) // as the statement has them
    const plan = rows.map((row) => String(row['detail'])).join('\n')
    assert.match(plan, /^SEARCH \w+ USING COVERING INDEX \w+ \(\w+Uri=\? AND \w+Cid=\? AND .*>.*\)$/, plan)
  }
})
