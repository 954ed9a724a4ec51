import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { BackfillStore, countedMax, type JobRepo, pendingMax } from './backfill-store.ts'

const repo: JobRepo = { did: '', state: 'unavailable', rev: '', attempts: 0, nextAtMs: 0, detail: '' }

test('repositories of a job that is over go piece by piece, also after a stop, and count for nothing meanwhile', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const left = (): unknown =>
    database.prepare('SELECT job_id, count(*) FROM backfill_repos GROUP BY job_id').raw().all()
  const store = new BackfillStore(database)
  const wish = { host: 'pds.example.com', cause: 'operator', revision: 1 } as const
  const jobs = ['', 'a.b.c', 'a.b.d'].flatMap((collection) => store.begin({ ...wish, collection }, 0))
  database.transaction(() => {
    for (const id of jobs) for (let i = 0; i < 2500; i++) store.putRepo(id, { ...repo, did: `did:plc:${i}` })
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
  assert.deepEqual(store.begin({ ...wish, collection: 'a.b.c' }, 0), [4])
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

test('what is retried is pending piece by piece, also after a stop, and only once', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const store = new BackfillStore(database)
  const [id = 0] = store.begin({ host: 'pds.example.com', cause: 'operator', revision: 1, collection: '' }, 0)
  database.transaction(() => {
    for (let i = 0; i < 1200; i++)
      store.putRepo(id, {
        ...repo,
        did: `did:plc:${i}`,
        state: i % 2 === 0 ? 'failed' : 'unavailable',
        attempts: 5,
      })
  })()
  store.setState(id, 'done', 0)
  store.retry(id, 7)
  store.setState(id, 'paused', 7)
  store.retrySome(id, 7)
  assert.equal(store.pending(id), 0)
  store.setState(id, 'active', 7)
  const pieces: number[] = []
  const tried = new Set<string>()
  for (let next = store; next.activeJobs(0)[0]?.isRetried; next = new BackfillStore(database)) {
    next.retrySome(id, 7)
    const due = next.due(id, { nowMs: 7, lateMs: 8 }, 2000)
    pieces.push(due.length)
    for (const { did, attempts } of due) {
      assert.equal(attempts, 0)
      tried.add(did)
      next.putRepo(id, { ...repo, did })
    }
  }
  assert.deepEqual(pieces, [500, 500, 200])
  assert.equal(tried.size, 1200)
})

test('repositories that are still to be read are counted up to a bound', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const store = new BackfillStore(database)
  database.transaction(() => {
    for (let i = 0; i < pendingMax + 5; i++)
      store.putRepo(1, { ...repo, did: `did:plc:${i}`, state: 'pending' })
  })()
  assert.equal(store.pending(1), pendingMax)
})

test('repositories of jobs are counted in turns of the event loop, whether a job has many or there are many jobs', async (t) => {
  for (const [jobs, repos] of [
    [4, countedMax],
    [800, 0],
  ] as const) {
    const database = openStateDatabase(':memory:')
    t.after(() => database.close())
    const store = new BackfillStore(database)
    store.addHosts(
      Array.from({ length: jobs }, (_, n) => `pds${n}.example.com`),
      1,
    )
    const ids = store.begin({ collection: '', cause: 'operator', revision: 1 }, 0)
    database.transaction(() => {
      for (const id of ids)
        for (let i = 0; i < repos; i++) store.putRepo(id, { ...repo, did: `did:plc:${i}` })
    })()
    let turns = 0
    const count = (): void => {
      turns++
      counting = setImmediate(count)
    }
    let counting = setImmediate(count)
    const counts = await store.countsOf(store.jobs())
    clearImmediate(counting)
    assert.deepEqual([counts.length, counts[0]?.unavailable], [jobs, repos])
    assert.ok(turns >= 3, `${turns} turns`)
  }
})

test('jobs of all hosts begin: again from the start where one is open, anew where there is none', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const store = new BackfillStore(database)
  store.addHosts(['a.example.com', 'b.example.com', 'c.example.com', 'gone.example.com'], 1)
  store.removeHosts(['gone.example.com'], 1)
  const wish = { collection: '', cause: 'host-added', revision: 1 } as const
  assert.deepEqual(store.begin({ ...wish, host: 'b.example.com' }, 1), [1])
  assert.deepEqual(store.begin({ ...wish, host: 'c.example.com' }, 1), [2])
  store.addListed({ id: 1, begins: 0 }, [], 7, 'far')
  store.setState(2, 'done', 1)
  assert.deepEqual(store.begin({ ...wish, cause: 'window-missed', revision: 2 }, 5), [1, 3, 4])
  assert.deepEqual(
    store.jobs().map(({ host, cause, cursor, isListed }) => [host, cause, cursor, isListed]),
    [
      ['b.example.com', 'window-missed', '', false],
      ['a.example.com', 'window-missed', '', false],
      ['c.example.com', 'window-missed', '', false],
    ],
  )
})

test('a page of a list that was asked for before events were lost counts for nothing', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const store = new BackfillStore(database)
  const wish = { host: 'pds.example.com', cause: 'window-missed', revision: 1, collection: '' } as const
  const [id = 0] = store.begin(wish, 0)
  const [asked] = store.activeJobs(0)
  assert.ok(asked)
  store.begin(wish, 0)
  const listed = [{ ...repo, did: 'did:plc:a' }]
  store.addListed(asked, listed, 1, undefined)
  assert.deepEqual([store.job(id)?.isListed, store.repos(id, '', 1)], [false, []])
  for (const job of store.activeJobs(0)) store.addListed(job, listed, 1, undefined)
  assert.deepEqual([store.job(id)?.isListed, store.repos(id, '', 1).length], [true, 1])
})
