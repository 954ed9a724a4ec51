import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTestIndex } from '../../tests/open-test-index.ts'
import { did, rowsOf } from '../../tests/scenario.ts'
import { LabelStore } from './label-store.ts'
import type { Label } from './read-label.ts'

const labeler = did('labeler')
const labelOf = (name: string): Label => ({
  src: labeler,
  did: did(name),
  uri: did(name),
  cid: null,
  val: 'standard',
  neg: false,
  cts: 1n,
  exp: null,
})

test('of a message whose labels cannot all be stored nothing is stored, and it comes again', async () => {
  await using connection = await openTestIndex()
  const store = new LabelStore(connection)
  const count = async (): Promise<number> => (await rowsOf(connection, 'labels')).length
  const bad = { ...labelOf('b'), cts: {} as unknown as bigint } // as no reader makes it
  await assert.rejects(store.store(labeler, 5, [labelOf('a'), bad]))
  assert.deepEqual([await store.cursor(labeler), await count()], [0, 0])
  await store.store(labeler, 5, [labelOf('a'), labelOf('b')])
  await store.store(labeler, 6, [labelOf('b')])
  assert.deepEqual([await store.cursor(labeler), await count()], [6, 2])
})
