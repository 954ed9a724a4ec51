import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Row, RowKind } from '@tributary/segment'
import { memoryInUse } from '@tributary/testkit'
import { newRow } from '../../tests/rows.ts'
import { eventKindOf } from '../archive/event-kind.ts'
import { LiveRun } from './live-run.ts'

/** Bytes that this thread has in use. */
function bytesInUse(): number {
  const { heapUsed, external } = memoryInUse()
  return heapUsed + external
}

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

/** Made once, because what is made for a row and goes again is freed some time later. */
const { draft, content = assert.fail('a record has content') } = newRow({ n: 1 })

/** Runs of so many rows each, 8,000 rows in all, each of an account of its own. */
function runsOf(rows: number): LiveRun[] {
  return Array.from({ length: 8_000 / rows }, (_run, r) => {
    const seqs = Array.from({ length: rows }, (_row, i) => r * rows + i + 1)
    return new LiveRun(
      seqs.map((seq) => {
        // One piece, as it comes out of an event.
        const did = Buffer.from(`did:plc:${String(seq).padStart(24, 'a')}`).toString('latin1')
        return { row: { ...draft, did, seq }, content }
      }),
    )
  })
}

/** Nothing that was made goes before the end, because buffers that go are freed some time later. */
const kept: LiveRun[][] = []

for (const rows of [1, 4, 100])
  test(`runs count for about what they take, when each has ${rows} of the rows`, () => {
    // The first runs also make things that all runs share.
    kept.push(runsOf(rows))
    const before = bytesInUse()
    const runs = runsOf(rows)
    kept.push(runs)
    const taken = bytesInUse() - before
    const counted = runs.reduce((sum, { bytes }) => sum + bytes, 0)
    assert.ok(taken > 0.6 * counted && taken < 1.1 * counted, `${taken} bytes, ${counted} counted`)
  })
