import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { newRow } from '../../tests/rows.ts'
import { LiveFrames } from './live-frames.ts'
import { LiveRun } from './live-run.ts'
import { ownRendition } from './rendition.ts'

const rowsMax = 12
const runOf = (firstSeq: number, count: number): LiveRun =>
  new LiveRun(
    Array.from({ length: count }, (_, i) => {
      const seq = firstSeq + i
      return { row: { ...newRow({ n: seq }).draft, seq } }
    }),
  )
const whole = runOf(1, rowsMax)

test('the messages of any rows of any runs are those of each row, with neighbours in one piece', () => {
  const anyRows = fc.subarray(Array.from({ length: rowsMax }, (_, i) => i))
  fc.assert(
    fc.property(anyRows, fc.integer({ min: 1, max: rowsMax }), (rows, perRun) => {
      const starts = Array.from({ length: Math.ceil(rowsMax / perRun) }, (_, i) => i * perRun)
      const live = new LiveFrames(starts.map((start) => runOf(start + 1, Math.min(perRun, rowsMax - start))))
      assert.deepEqual([live.count, live.lastSeq], [rowsMax, rowsMax])
      assert.deepEqual(Buffer.from(live.frames), whole.frames)
      const frames = live.framesOf(rows)
      assert.deepEqual(Buffer.concat(frames), Buffer.concat(rows.map((row) => whole.frameAt(row))))
      assert.equal(frames.length, rows.filter((row) => !rows.includes(row - 1)).length)
      for (const row of rows) {
        assert.deepEqual(Buffer.from(live.renderedAt(row, ownRendition)), Buffer.from(whole.frameAt(row)))
        assert.equal(live.messageBytesAt(row, ownRendition), whole.messageBytesAt(row))
      }
    }),
  )
})

test('the messages of more rows than views are kept of are right, too', () => {
  const run = runOf(1, 200)
  const frames = new LiveFrames([run]).framesOf([0, 63, 64, 199])
  assert.deepEqual(Buffer.concat(frames), Buffer.concat([0, 63, 64, 199].map((row) => run.frameAt(row))))
})

test('all groups that want the same rows share the view of their messages', () => {
  const live = new LiveFrames([runOf(1, 5), runOf(6, 5)])
  assert.equal(live.framesOf([3, 7, 8])[1], live.framesOf([7, 8])[0])
  assert.equal(live.only(7), live.only(7))
})
