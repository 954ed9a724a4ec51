import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStateDatabase } from '../state-database.ts'
import { lostSeqsOf, noteLost } from './lost-rows.ts'

test('what a repair has lost is still known after another one', () => {
  const database = openStateDatabase(':memory:')
  assert.deepEqual(lostSeqsOf(database), [])
  const ranges = [
    { afterSeq: 450, throughSeq: 460 },
    { afterSeq: 470, throughSeq: 480 },
  ]
  for (const range of ranges) noteLost(database, range)
  assert.deepEqual(lostSeqsOf(database), ranges)
  database.close()
})
