import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { IndexNotReadyError, openIndexReader, openIndexWriter } from './database.ts'

const alice = 'did:plc:aliceaaaaaaaaaaaaaaaaaaa' as Did // valid by construction

function record(uri: string) {
  return {
    uri,
    did: alice,
    collection: 'org.impact.claim.activity',
    rkey: '3act',
    cid: 'bafy',
    rev: '3rev',
    json: '{}',
    indexedAt: 1n,
    createdAt: null,
    feedTime: 253_402_300_799_999_999n,
  }
}

test('a reader says that it must wait until the writer has made the database, then sees what was committed', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  assert.throws(() => openIndexReader(path), IndexNotReadyError)

  await using writer = await openIndexWriter(path)
  await using reader = openIndexReader(path)
  await writer.db.insertInto('records').values(record('at://a/b/c')).execute()
  const row = await reader.db.selectFrom('records').selectAll().executeTakeFirstOrThrow()
  assert.equal(row.feedTime, 253_402_300_799_999_999n)
  await assert.rejects(reader.db.deleteFrom('records').execute(), { code: 'SQLITE_READONLY' })
})

test('opening again keeps the data', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  {
    await using writer = await openIndexWriter(path)
    await writer.db.insertInto('records').values(record('at://a/b/c')).execute()
  }
  await using writer = await openIndexWriter(path)
  assert.equal((await writer.db.selectFrom('records').selectAll().execute()).length, 1)
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
  assert.equal((await writer.db.selectFrom('records').selectAll().execute()).length, 0)
})

test('a database of another schema is refused by name', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'index-store-'))
  const path = join(directory.path, 'index.sqlite')
  await using writer = await openIndexWriter(path)
  writer.sqlite.exec("insert into kysely_migration values ('9999-later', '')")
  assert.throws(() => openIndexReader(path), /schema 9999-later/)
})

test('records of a hidden account are not among the visible ones', async () => {
  await using writer = await openIndexWriter(':memory:')
  await writer.db.insertInto('records').values(record('at://a/b/c')).execute()
  const visible = () => writer.db.selectFrom('visibleRecords').select('uri').execute()
  assert.equal((await visible()).length, 1)
  const account = {
    did: alice,
    status: 'deactivated',
    statusSeq: 1n,
    hostStatus: null,
    hidden: 1n,
    checkedAt: 0n,
    isAuthor: 1n,
  }
  await writer.db.insertInto('accounts').values(account).execute()
  assert.equal((await visible()).length, 0)
})

test('an author page is read from an index in feed order', async () => {
  await using writer = await openIndexWriter(':memory:')
  const plan = writer.sqlite
    .prepare<[], { detail: string }>(
      `explain query plan select uri, kind from entries where did = 'x' and feedTime < 5
       order by feedTime desc, uri desc limit 51`,
    )
    .all()
  assert.deepEqual(
    plan.map((step) => step.detail),
    ['SEARCH entries USING COVERING INDEX entriesByAuthor (did=? AND feedTime<?)'],
  )
})
