import assert from 'node:assert/strict'
import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { commitAndSync, openStateDatabase } from './state-database.ts'

test('what is synced elsewhere is committed without a sync on the event loop, and everything else with one', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'state-database-'))
  const database = openStateDatabase(join(directory.path, 'state.sqlite'))
  const [normal, full] = [1, 2]
  const mode = (): unknown => database.pragma('synchronous', { simple: true })
  let within: unknown
  const add = (collection: string): void => {
    within = mode()
    database.prepare('INSERT INTO watched_collections VALUES (?, 1, ?, 1)').run(collection, 'test')
  }
  await commitAndSync(database, () => add('app.one'))
  assert.deepEqual([within, mode()], [normal, full])
  const again = commitAndSync(database, () => {
    add('app.two')
    throw new Error('not this one')
  })
  await assert.rejects(again, /not this one/)
  assert.deepEqual([within, mode()], [normal, full])
  const rows = database.prepare('SELECT collection FROM watched_collections').pluck().all()
  assert.deepEqual(rows, ['app.one'])
  database.close()
})
