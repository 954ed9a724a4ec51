import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newRow } from '../../tests/rows.ts'
import { BlockWriter } from './block-writer.ts'

test('a disk that is slow makes the writer full by rows without payload, too', () => {
  const writer = new BlockWriter({
    segments: { append: () => new Promise(() => undefined) },
    ageMsMax: 1,
    onWritten: () => assert.fail(),
    onFailure: assert.fail,
  })
  const row = { ...newRow({ n: 1, kind: 3 }).draft, seq: 1 }
  writer.add(Array.from({ length: 4096 }, () => row))
  assert.equal(writer.isFull, false)
  writer.add(Array.from({ length: 16 * 4096 }, () => row))
  assert.equal(writer.isFull, true)
})
