import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn, setTimeout as lookAgainAfter } from 'node:timers/promises'
import { eventually } from '@tributary/testkit'
import { newRow } from '../../tests/rows.ts'
import { BlockWriter } from './block-writer.ts'

test('a disk that is slow makes the writer full by rows without payload, too', () => {
  const writer = new BlockWriter({
    segments: { append: () => new Promise(() => undefined) },
    ageMsMax: 1,
    isPressed: () => false,
    onWritten: () => assert.fail(),
    onFailure: assert.fail,
  })
  const row = { ...newRow({ n: 1, kind: 3 }).draft, seq: 1 }
  writer.add(Array.from({ length: 4096 }, () => row))
  assert.equal(writer.askForRoom(), true)
  writer.add(Array.from({ length: 16 * 4096 }, () => row))
  assert.equal(writer.askForRoom(), false)
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
    isPressed: () => false,
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

const rowAt = (seq: number, payload = new Uint8Array(0)) => ({
  ...newRow({ n: 1, kind: 3 }).draft,
  seq,
  payload,
})

test('blocks have as many rows as they may, and no more, and memory is free again when they are written', async () => {
  const sizes: number[] = []
  const writer = new BlockWriter({
    segments: { append: async (rows) => void sizes.push(rows.length) },
    ageMsMax: 1e6,
    isPressed: () => false,
    onWritten: () => {},
    onFailure: assert.fail,
  })
  writer.add(Array.from({ length: 10_000 }, (_, i) => rowAt(i + 1)))
  await writer.flush()
  assert.deepEqual(sizes, [4096, 4096, 1808])
  const large = new Uint8Array(9 * 1024 * 1024)
  for (let round = 0; round < 3; round++) {
    writer.add(Array.from({ length: 8 }, (_, i) => rowAt(20_000 + 8 * round + i, large)))
    assert.equal(writer.askForRoom(), false)
    await writer.flush()
    assert.equal(writer.askForRoom(), true)
  }
  await writer.close()
})

test('a block has no more bytes than are decoded in one piece, and a row that is larger has its own', async () => {
  const blocks: number[] = []
  const writer = new BlockWriter({
    segments: { append: async (rows) => void blocks.push(rows.length) },
    ageMsMax: 1e6,
    isPressed: () => false,
    onWritten: () => {},
    onFailure: assert.fail,
  })
  const payloads = [3, 5, 1, 9, 1].map((megabytes) => new Uint8Array(megabytes * 1024 * 1024))
  writer.add(payloads.map((payload, i) => rowAt(i + 1, payload)))
  await writer.flush()
  assert.deepEqual(blocks, [2, 1, 1, 1])
  await writer.close()
})

test('a row that came while a full block was written gets a block in time', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const gate = Promise.withResolvers<void>()
  const sizes: number[] = []
  const writer = new BlockWriter({
    segments: {
      append: async (rows) => {
        sizes.push(rows.length)
        await gate.promise
      },
    },
    ageMsMax: 10,
    isPressed: () => false,
    onWritten: () => {},
    onFailure: assert.fail,
  })
  writer.add(Array.from({ length: 4096 }, (_, i) => rowAt(i + 1)))
  writer.add([rowAt(4097)])
  gate.resolve()
  while (writer.pendingRows > 1) await nextTurn()
  await nextTurn()
  t.mock.timers.tick(10)
  assert.deepEqual(sizes, [4096, 1])
})

test('whoever waits for rows in blocks is told that the disk failed', async () => {
  const failures: string[] = []
  const writer = new BlockWriter({
    segments: { append: () => Promise.reject(new Error('no space')) },
    ageMsMax: 1e6,
    isPressed: () => false,
    onWritten: () => assert.fail(),
    onFailure: ({ message }) => failures.push(message),
  })
  writer.add([rowAt(1)])
  for (let n = 0; n < 2; n++) await assert.rejects(writer.flush(), { message: 'no space' })
  assert.deepEqual(failures, ['no space'])
})

test('rows that come to take too much memory elsewhere are written when somebody asks for room', async () => {
  let isPressed = false
  const blocks: number[] = []
  const writer = new BlockWriter({
    segments: { append: async (rows) => void blocks.push(rows.length) },
    ageMsMax: 1e6,
    isPressed: () => isPressed,
    onWritten: (seq) => (isPressed = seq < 2),
    onFailure: assert.fail,
  })
  writer.add([rowAt(1), rowAt(2)])
  assert.equal(writer.askForRoom(), true)
  isPressed = true
  assert.equal(writer.askForRoom(), false)
  await nextTurn()
  assert.deepEqual([writer.askForRoom(), blocks], [true, [2]])
  writer.add([rowAt(3)])
  await nextTurn()
  assert.equal(writer.pendingRows, 1)
  await writer.close()
})

test('rows that press while other rows are written on demand are written after them, though nobody asks again', async () => {
  const blocks: number[][] = []
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  let covered = 0
  let newest = 1
  const writer = new BlockWriter({
    segments: {
      append: async (rows) => {
        await held
        blocks.push(rows.map(({ seq }) => seq))
      },
    },
    ageMsMax: 1e6,
    isPressed: () => newest - covered > 5,
    // As the ingest does, which reads nothing more meanwhile.
    onWritten: (seq) => {
      covered = seq
      writer.askForRoom()
    },
    onFailure: assert.fail,
  })
  writer.add([rowAt(1)])
  const flushed = writer.flush()
  newest = 11
  writer.add(Array.from({ length: 10 }, (_, i) => rowAt(i + 2)))
  assert.equal(writer.askForRoom(), false)
  release()
  await flushed
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  assert.deepEqual([blocks.map((seqs) => seqs.length), writer.askForRoom()], [[1, 10], true])
  await writer.close()
})
