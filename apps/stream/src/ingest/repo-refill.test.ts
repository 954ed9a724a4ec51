import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { encode } from '@atcute/cbor'
import type { RepoRecord } from '@tributary/repo-verify'
import { openStateDatabase } from '../state-database.ts'
import { RepoRefill } from './repo-refill.ts'
import { RepoStates } from './repo-states.ts'

const did = 'did:plc:a'

/** A stream that knows nothing of an account, and repositories of it as they are given. */
function emptyStream(t: TestContext) {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  // In memory there is no log to be synced.
  const states = new RepoStates(database, async (_, change) => database.transaction(change)())
  const stream = {
    database,
    states,
    /** Paths of records that were written. */
    written: [] as string[],
    get rows(): number {
      return stream.written.length
    },
    /** Records that were looked at. */
    looks: 0,
    /** Watched collections, and the revisions at which they were added. */
    watched: new Map([['a.b.c', 1]]),
    isAnyAddedAgain: false,
    /** @param bytes of each record. @param count of the records of each watched collection. */
    refill: (rev: string, bytes: number, count = 5): RepoRefill => {
      const record = encode({ text: 'x'.repeat(bytes) })
      const added = new Map(stream.watched)
      const records = [...added.keys()].toSorted().flatMap((collection) =>
        Array.from({ length: count }, (_, i) => ({
          collection,
          rkey: String(i).padStart(5, '0'),
          cid: `${i}`,
          record,
        })),
      ) as unknown as RepoRecord[] // as far as they are looked at
      const revision = Math.max(...added.values())
      return new RepoRefill(
        {
          did,
          rev,
          data: '' as RepoRecord['cid'],
          records,
          watchRevision: revision,
          marksBefore: states.marks,
        },
        {
          states,
          watched: {
            has: () => stream.looks++ >= 0,
            names: () => new Set(added.keys()),
            revision,
            newestAddition: revision,
            isAddedAfter: (collection, after) => (added.get(collection) ?? 0) > after,
            isAnyAddedAgain: () => stream.isAnyAddedAgain,
          },
          append: ({ draft }) => void stream.written.push(`${draft.collection}/${draft.rkey}`),
          witnessedNow: () => 1,
          onRecordDropped: () => {},
          mayReplace: true,
          onWhole: () => {},
        },
      )
    },
  }
  return stream
}

test('large records of a repository are written a few in a turn', (t) => {
  const stream = emptyStream(t)
  const refill = stream.refill('3l22222222222', 40_000)
  const written: number[] = []
  for (let outcome; outcome === undefined;) {
    outcome = refill.step()
    written.push(stream.rows)
  }
  assert.deepEqual(written, [2, 4, 5])
})

test('a repository that a stop left half written is not replaced by an older one', (t) => {
  const stream = emptyStream(t)
  assert.equal(stream.refill('3l22222222233', 40_000).step(), undefined)
  assert.deepEqual(stream.refill('3l22222222222', 40).step(), { is: 'contents-behind' })
  assert.equal(stream.rows, 2)
  assert.deepEqual(stream.refill('3l22222222233', 40).step(), { is: 'whole', rows: 3 })
})

test('a repository of which the archive has most is looked through some records at a time', (t) => {
  const stream = emptyStream(t)
  const [rev, count] = ['3l22222222233', 10_000]
  const before = stream.refill(rev, 1, count)
  while (stream.rows < count - 64) before.step()
  const refill = stream.refill(rev, 1, count)
  stream.looks = 0
  let turns = 1
  while (refill.step() === undefined) turns++
  assert.ok(stream.looks <= turns * 1000, `${stream.looks} records in ${turns} turns`)
  assert.equal(stream.rows, count)
})

test('a mark is done with though so many other accounts had events while the repository was read that its state left memory', async (t) => {
  const stream = emptyStream(t)
  const { database, states } = stream
  states.mark(did)
  const position = { relayUrl: 'ws://relay', epoch: 0, epochBeganMs: 0, cursor: 1 }
  await states.save(position, { appliedSeq: 0, blockSeq: 0 }, Promise.resolve())
  const refill = stream.refill('3l22222222222', 40)
  database.exec(`INSERT INTO repos (did, rev, sync_rev, identity_seen, account_seen, needs_refetch)
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 60000)
    SELECT 'did:plc:' || n, 'one', '', '', '', 0 FROM numbers`)
  for (let n = 1; n <= 60_000; n++) states.get(`did:plc:${n}`)
  assert.deepEqual(refill.step(), { is: 'whole', rows: 5 })
  assert.equal(states.get(did)?.needsRefetch, false)
  // Nor is a mark of before a start.
  assert.equal(new RepoStates(database).isMarkedSince(did, 0), false)
})

test('a refill that is under way has one note for all that is written', (t) => {
  const stream = emptyStream(t)
  const refill = stream.refill('3l22222222233', 1, 1000)
  while (stream.rows < 900) refill.step()
  assert.equal(stream.states.archived.of(did).size, 1)
})

test('a refill that goes on writes the records of a collection that was added since, and no record twice', (t) => {
  const stream = emptyStream(t)
  const [rev, count] = ['3l22222222233', 1000]
  const steps = (refill: RepoRefill, untilRows: number): void => {
    while (stream.rows < untilRows && refill.step() === undefined);
  }
  steps(stream.refill(rev, 1, count), 500)
  stream.watched.set('a.b.a', 2)
  // Stops before, and after, what the first one has written.
  for (const untilRows of [1000, 1600]) steps(stream.refill(rev, 1, count), untilRows)
  const last = stream.refill(rev, 1, count)
  while (last.step() === undefined);
  const all = ['a.b.a', 'a.b.c'].flatMap((collection) =>
    Array.from({ length: count }, (_, i) => `${collection}/${String(i).padStart(5, '0')}`),
  )
  assert.deepEqual(stream.written.toSorted(), all)
  assert.equal(stream.states.archived.has(did), false)
})

test('a refill that goes on writes all of it after a marker when a collection was removed and added again', (t) => {
  const stream = emptyStream(t)
  const rev = '3l22222222233'
  const first = stream.refill(rev, 1, 1000)
  while (stream.rows < 500) first.step()
  const before = stream.rows
  stream.watched.set('a.b.c', 3)
  stream.isAnyAddedAgain = true
  const next = stream.refill(rev, 1, 1000)
  while (next.step() === undefined);
  assert.equal(stream.written[before], '/')
  assert.equal(stream.rows, before + 1 + 1000)
})
