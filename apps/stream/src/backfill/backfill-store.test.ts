import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { BackfillStore, type JobRepo } from './backfill-store.ts'

const repo: JobRepo = { did: '', state: 'unavailable', rev: '', attempts: 0, nextAtMs: 0, detail: '' }

test('repositories of a job that is over go piece by piece, also after a stop, and count for nothing meanwhile', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const left = (): unknown =>
    database.prepare('SELECT job_id, count(*) FROM backfill_repos GROUP BY job_id').raw().all()
  const store = new BackfillStore(database)
  const wish = { host: 'pds.example.com', cause: 'operator', revision: 1 } as const
  const jobs = ['', 'a.b.c', 'a.b.d'].map((collection) => store.begin({ ...wish, collection }, 0))
  database.transaction(() => {
    for (const { id } of jobs)
      for (let i = 0; i < 2500; i++) store.putRepo(id, { ...repo, did: `did:plc:${i}` })
  })()
  store.setState(1, 'cancelled', 0)
  store.setState(2, 'done', 0)
  assert.deepEqual(store.counts(1), { pending: 0, failed: 0, unavailable: 0 })
  assert.deepEqual(left(), [
    [1, 2500],
    [2, 2500],
    [3, 2500],
  ])
  // Its successor takes the place of the one that is done.
  assert.equal(store.begin({ ...wish, collection: 'a.b.c' }, 0).id, 4)
  store.sweep()
  assert.deepEqual(left(), [
    [1, 500],
    [2, 2500],
    [3, 2500],
  ])
  const again = new BackfillStore(database)
  while (again.hasLeftovers) again.sweep()
  assert.deepEqual(left(), [[3, 2500]])
  assert.equal(again.counts(3).unavailable, 2500)
})
