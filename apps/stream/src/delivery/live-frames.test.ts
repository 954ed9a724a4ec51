import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { newRow } from '../../tests/rows.ts'
import { LiveFrames } from './live-frames.ts'
import { LiveRun } from './live-run.ts'

const rowsMax = 12
const run = new LiveRun(
  Array.from({ length: rowsMax }, (_, i) => ({ row: { ...newRow({ n: i + 1 }).draft, seq: i + 1 } })),
)

test('the messages of any rows are those of each row, with neighbours in one piece', () => {
  const live = new LiveFrames(run)
  const anyRows = fc.subarray(Array.from({ length: rowsMax }, (_, i) => i))
  fc.assert(
    fc.property(anyRows, (rows) => {
      const frames = live.framesOf(rows)
      assert.deepEqual(Buffer.concat(frames), Buffer.concat(rows.map((row) => run.frameAt(row))))
      const pieces = rows.filter((row) => !rows.includes(row - 1)).length
      assert.equal(frames.length, pieces)
    }),
  )
})

test('all groups that want a single row share the view of its message', () => {
  const live = new LiveFrames(run)
  assert.equal(live.framesOf([3, 7])[1], live.framesOf(live.only(7))[0])
  assert.equal(live.framesOf(live.only(7)), live.framesOf([7]))
})
