import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { encode } from '@atcute/cbor'
import type { RepoRecord } from '@tributary/repo-verify'
import { openStateDatabase } from '../state-database.ts'
import { RepoRefill } from './repo-refill.ts'
import { RepoStates } from './repo-states.ts'

/** A stream that knows nothing of an account, and repositories of it as they are given. */
function emptyStream(t: TestContext) {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const states = new RepoStates(database)
  const stream = {
    rows: 0,
    /** Records that were looked at. */
    looks: 0,
    /** @param bytes of each record. */
    refill: (rev: string, bytes: number, count = 5): RepoRefill => {
      const record = encode({ text: 'x'.repeat(bytes) })
      const records = Array.from({ length: count }, (_, i) => ({
        collection: 'a.b.c',
        rkey: `${i}`,
        cid: `${i}`,
        record,
      })) as unknown as RepoRecord[] // as far as they are looked at
      return new RepoRefill(
        {
          did: 'did:plc:a',
          rev,
          data: '' as RepoRecord['cid'],
          records,
          watchRevision: 1,
          marksBefore: 0,
        },
        {
          states,
          watched: {
            has: () => stream.looks++ >= 0,
            names: () => new Set(),
            revision: 1,
            newestAddition: 1,
            isAddedAfter: () => false,
            isAnyAddedAgain: () => false,
          },
          append: () => void stream.rows++,
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
