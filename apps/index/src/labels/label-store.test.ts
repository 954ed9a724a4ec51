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

test('others have their transactions while many labels are compared or taken back', async () => {
  await using connection = await openTestIndex()
  const store = new LabelStore(connection)
  await store.add(Array.from({ length: 1200 }, (_, n) => labelOf(`n${n}`)))
  const order: string[] = []
  const other = (name: string): Promise<number> => connection.write(() => Promise.resolve(order.push(name)))
  const [inForce] = await Promise.all([
    store.inForce(labeler).finally(() => order.push('compared')),
    other('another before'),
  ])
  assert.equal(inForce.size, 1200)
  await Promise.all([
    store.takeBack([...inForce.values()]).finally(() => order.push('taken back')),
    other('another meanwhile'),
  ])
  assert.deepEqual(order, ['another before', 'compared', 'another meanwhile', 'taken back'])
  assert.equal((await store.inForce(labeler)).size, 0)
})
