import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Row, RowKind } from '@tributary/segment'
import { newRow } from '../../tests/rows.ts'
import { eventKindOf } from '../archive/event-kind.ts'
import { LiveRun } from './live-run.ts'

test('a run tells of each row what a filter asks', () => {
  const kinds: RowKind[] = [1, 2, 3, 4, 5, 6, 7]
  const rows = kinds.map((kind, i): Row => {
    const { draft } = newRow({ n: i, kind, did: `did:plc:${i}`, collection: `app.a.c${i}` })
    return { ...draft, seq: 10 + 2 * i }
  })
  const run = new LiveRun(rows.map((row) => ({ row })))
  const told = rows.map((_, i) => [run.seqAt(i), run.rowKindAt(i), run.didAt(i), run.collectionAt(i)])
  assert.deepEqual(
    told,
    rows.map(({ seq, kind, did, collection }) => [seq, kind, did, collection]),
  )
  assert.deepEqual(
    rows.map((_, i) => [run.kindAt(i), run.witnessedAtAt(i)]),
    rows.map(({ kind, witnessedAt }) => [eventKindOf(kind), witnessedAt]),
  )
  assert.deepEqual([run.count, run.firstSeq, run.lastSeq], [7, 10, 22])
})
