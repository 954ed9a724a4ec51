import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { Did } from '@tributary/protocol'
import { openIndexWriter } from './database.ts'

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
