import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as lookAgainAfter } from 'node:timers/promises'
import { eventually } from '@tributary/testkit'
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

test('rows that came while a block was written, and were written with it, leave nothing to write later', async () => {
  const blocks: number[][] = []
  const writer = new BlockWriter({
    segments: {
      append: async (rows) => {
        blocks.push(rows.map(({ seq }) => seq))
        if (blocks.length === 1) writer.add([row(2)])
        await lookAgainAfter(1)
      },
    },
    ageMsMax: 5,
    onWritten: () => {},
    onFailure: assert.fail,
  })
  const row = (seq: number) => ({ ...newRow({ n: 1, kind: 3 }).draft, seq })
  writer.add([row(1)])
  await eventually(() => blocks.length === 2)
  writer.add([row(3)])
  await writer.close()
  assert.deepEqual(blocks, [[1], [2], [3]])
})
