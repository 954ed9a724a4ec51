import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encode } from '@atcute/cbor'
import type { RepoRecord } from '@tributary/repo-verify'
import { openStateDatabase } from '../state-database.ts'
import { RepoRefill } from './repo-refill.ts'
import { RepoStates } from './repo-states.ts'

test('large records of a repository are written a few in a turn', (t) => {
  const database = openStateDatabase(':memory:')
  t.after(() => database.close())
  const record = encode({ text: 'x'.repeat(40_000) })
  const records = Array.from({ length: 5 }, (_, i) => ({
    collection: 'a.b.c',
    rkey: `${i}`,
    cid: `${i}`,
    record,
  })) as unknown as RepoRecord[] // as far as they are looked at
  let rows = 0
  const refill = new RepoRefill(
    {
      did: 'did:plc:a',
      rev: '3l22222222222',
      data: '' as RepoRecord['cid'],
      records,
      watchRevision: 1,
      marksBefore: 0,
    },
    {
      states: new RepoStates(database),
      watched: {
        has: () => true,
        names: () => new Set(),
        revision: 1,
        newestAddition: 1,
        isAddedAfter: () => false,
        isAnyAddedAgain: () => false,
      },
      append: () => void rows++,
      witnessedNow: () => 1,
      onRecordDropped: () => {},
      mayReplace: true,
      onWhole: () => {},
    },
  )
  const written: number[] = []
  for (let outcome; outcome === undefined;) {
    outcome = refill.step()
    written.push(rows)
  }
  assert.deepEqual(written, [2, 4, 5])
})
