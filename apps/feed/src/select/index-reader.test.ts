import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openIndexWriter } from '@tributary/index-store'
import { IndexReader } from './index-reader.ts'

test('a database that takes the place of another one is read from the next call on', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'index-reader-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const [path, next] = ['index.sqlite', 'next.sqlite'].map((name) => join(directory, name))
  assert.ok(path && next)
  const make = async (place: string, cursor: number): Promise<void> => {
    await using writer = await openIndexWriter(place)
    writer.sqlite.prepare('insert into cursors (source, cursor) values (?, ?)').run('stream', cursor)
    writer.sqlite.pragma('wal_checkpoint(TRUNCATE)')
  }
  await using reader = new IndexReader(path)
  const cursor = async (): Promise<unknown> =>
    reader.read((db) => db.selectFrom('cursors').select('cursor').executeTakeFirst())
  await assert.rejects(async () => cursor())
  await make(path, 1)
  assert.deepEqual(await cursor(), { cursor: 1n })
  await make(next, 2)
  for (const end of ['-wal', '-shm']) rmSync(`${path}${end}`, { force: true })
  renameSync(next, path)
  assert.deepEqual(await cursor(), { cursor: 2n })
})

test('a database that was migrated under the open reader is read no more', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'index-reader-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'index.sqlite')
  await using writer = await openIndexWriter(path)
  await using reader = new IndexReader(path)
  reader.probe()
  writer.sqlite.exec(`insert into kysely_migration values ('9999-later', '2026-03-04T12:00:00.000Z');
    create table later (uri text)`)
  assert.throws(() => reader.probe(), { name: 'IndexNotReadyError' })
  writer.sqlite.exec("delete from kysely_migration where name = '9999-later'; drop table later")
  reader.probe()
})
