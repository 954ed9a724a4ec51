import assert from 'node:assert/strict'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeRow, makeRows, sealBlocks } from '../tests/rows.ts'
import { scratchDirectory } from '../tests/scratch.ts'
import { expectedRows, readJsonVector, readVector, vectorPath } from '../tests/vectors.ts'
import { ActiveSegment } from './active-segment.ts'
import { blockEnd } from './block-index.ts'
import { nodeDecompress } from './node-zstd.ts'
import { parseSegment } from './parsed-segment.ts'
import type { Row } from './row.ts'

const blocks = [makeRows(1, 3), makeRows(4, 4), makeRows(7, 12)]

/** An active file with three blocks, closed. */
async function writeActive(path: string): Promise<Uint8Array> {
  const segment = await ActiveSegment.create(path)
  for (const rows of blocks) await segment.appendBlock(rows)
  await segment.close()
  return new Uint8Array(await readFile(path))
}

async function rowsOf(segment: ActiveSegment): Promise<Row[]> {
  const rows: Row[] = []
  for (const i of segment.blocks.keys()) rows.push(...(await segment.readBlock(i)).rows())
  return rows
}

test('a new segment is an active header and nothing else, and its name is taken once', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const segment = await ActiveSegment.create(path)
  const header = new Uint8Array(256)
  header.set([0x6a, 0x73, 0x73, 0x30])
  assert.deepEqual(new Uint8Array(await readFile(path)), header)
  await assert.rejects(ActiveSegment.create(path), { problem: 'bad-name' })
  await segment.close()
})

test('appended blocks are in the file when the append resolves, and are read back', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const segment = await ActiveSegment.create(path)
  for (const rows of blocks) {
    const entry = await segment.appendBlock(rows)
    assert.equal((await readFile(path)).length, blockEnd(entry))
    assert.equal(segment.lastSeq, rows.at(-1)?.seq)
  }
  assert.deepEqual(await rowsOf(segment), blocks.flat())
  await assert.rejects(segment.readBlock(3), { problem: 'no-such-block' })
  await segment.close()
})

test('rows that cannot be written are refused, and the next ones are written', async () => {
  await using scratch = await scratchDirectory()
  const segment = await ActiveSegment.create(join(scratch.path, 'seg_0000000000.jss'))
  await segment.appendBlock(makeRows(5, 6))
  await assert.rejects(segment.appendBlock([]), { problem: 'bad-block' })
  await assert.rejects(segment.appendBlock([makeRow(6)]), { problem: 'bad-row' })
  await assert.rejects(segment.appendBlock([makeRow(7, { rkey: 'k'.repeat(256) })]), { problem: 'bad-row' })
  await segment.appendBlock([makeRow(7)])
  assert.equal(segment.blocks.length, 2)
  await segment.close()
})

test('after a write that failed nothing is written until the file is recovered', async () => {
  await using scratch = await scratchDirectory()
  const segment = await ActiveSegment.create(join(scratch.path, 'seg_0000000000.jss'))
  await segment.close()
  await assert.rejects(segment.appendBlock([makeRow(1)]), { problem: 'closed' })
  await assert.rejects(segment.appendBlock([makeRow(1)]), { problem: 'failed' })
  await assert.rejects(segment.seal(), { problem: 'bad-block' })
})

test('recovery cuts a last block that is cut at any byte, and keeps all before it', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const whole = await writeActive(path)
  const intact = await ActiveSegment.recover(path)
  const [, second] = intact.blocks
  assert.ok(second)
  assert.equal(intact.bytesCut, 0)
  await intact.close()
  for (let length = blockEnd(second); length < whole.length; length++) {
    await writeFile(path, whole.subarray(0, length))
    const segment = await ActiveSegment.recover(path)
    assert.equal(segment.bytesCut, length - blockEnd(second))
    assert.equal((await readFile(path)).length, blockEnd(second))
    assert.equal(segment.lastSeq, 4)
    await segment.close()
  }
  const segment = await ActiveSegment.recover(path)
  await segment.appendBlock(makeRows(7, 12))
  assert.deepEqual(await rowsOf(segment), blocks.flat())
  await segment.close()
  assert.deepEqual(new Uint8Array(await readFile(path)), whole)
})

test('recovery cuts the derived torn file after its second block', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  await copyFile(vectorPath('derived/synthetic_active.jss'), path)
  const segment = await ActiveSegment.recover(path)
  type Expected = { blocks: { events: unknown[] }[] }
  const expected = readJsonVector<Expected>('derived/synthetic_all_kinds.expected.json').blocks.slice(0, 2)
  assert.equal(segment.bytesCut, 28)
  assert.deepEqual(
    expectedRows(await rowsOf(segment)),
    expected.flatMap(({ events }) => events),
  )
  await segment.close()
})

test('recovery takes a seal back that stopped at any byte before its header', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const active = await writeActive(path)
  const segment = await ActiveSegment.recover(path)
  await segment.seal()
  await segment.close()
  const footer = (await readFile(path)).subarray(active.length)
  for (let length = 0; length <= footer.length; length++) {
    await writeFile(path, Buffer.concat([active, footer.subarray(0, length)]))
    const recovered = await ActiveSegment.recover(path)
    assert.equal(recovered.bytesCut, length)
    assert.equal(recovered.lastSeq, 12)
    await recovered.close()
  }
  const again = await ActiveSegment.recover(path)
  await again.appendBlock(makeRows(13, 14))
  await again.seal()
  await again.close()
  const sealed = parseSegment(new Uint8Array(await readFile(path)), nodeDecompress)
  assert.equal(sealed.header.eventCount, 12)
})

test('a last block that does not decode is cut when the blocks before it hold all that is known to be in blocks', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const whole = await writeActive(path)
  const intact = await ActiveSegment.recover(path)
  const [, second, third] = intact.blocks
  await intact.close()
  assert.ok(second && third)
  const start = blockEnd(second)
  // A sector of 512 bytes that did not arrive, with the block's length in it or not.
  for (const from of [start, start + 8]) {
    const torn = Uint8Array.from(whole).fill(0, from)
    await writeFile(path, torn)
    const refusal = await ActiveSegment.recover(path, { lastSeqMin: third.maxSeq }).catch(
      (error: unknown) => error,
    )
    assert.match(String(refusal), /SegmentError/)
    assert.deepEqual(new Uint8Array(await readFile(path)), torn, 'nothing was cut')
    const segment = await ActiveSegment.recover(path, { lastSeqMin: second.maxSeq })
    assert.equal(segment.lastSeq, second.maxSeq)
    assert.equal(segment.bytesCut, whole.length - start)
    await segment.close()
  }
})

test('a file whose whole blocks end before rows that were in blocks is refused, and nothing is cut', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const whole = await writeActive(path)
  const intact = await ActiveSegment.recover(path)
  const [first] = intact.blocks
  const { lastSeq } = intact
  await intact.close()
  assert.ok(first)
  const flipped = Uint8Array.from(whole)
  // The highest byte of the second block's length, which then claims more than there is.
  flipped[blockEnd(first) + 7] = 1
  await writeFile(path, flipped)
  const refusal = { name: 'SegmentError', problem: 'missing-rows' }
  await assert.rejects(ActiveSegment.recover(path, { lastSeqMin: lastSeq }), refusal)
  assert.deepEqual(new Uint8Array(await readFile(path)), flipped)
})

test('damage that no crash explains is reported and nothing is cut', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const whole = await writeActive(path)
  const refuse = async (problem: string, bytes: Uint8Array): Promise<void> => {
    await writeFile(path, bytes)
    await assert.rejects(ActiveSegment.recover(path), { name: 'SegmentError', problem })
    assert.equal((await readFile(path)).length, bytes.length)
  }
  const flipped = Uint8Array.from(whole)
  flipped[300] = ~(flipped[300] ?? 0)
  await refuse('bad-frame', flipped)
  await refuse('bad-frame', Uint8Array.from([...whole, ...new Uint8Array(8)]))
  await refuse('bad-order', Uint8Array.from([...whole, ...whole.subarray(256)]))
  await refuse('bad-header', whole.subarray(0, 255))
  await refuse(
    'bad-header',
    Uint8Array.from(whole, (byte, i) => (i === 0 ? 0x6b : byte)),
  )
  await refuse('already-sealed', readVector('segment/golden_seal.bin'))
})

test('a sealed file is what the format says its rows give, and only reads from then on', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  const segment = await ActiveSegment.create(path)
  await assert.rejects(segment.seal(), { problem: 'bad-block' })
  for (const rows of blocks) await segment.appendBlock(rows)
  assert.equal(segment.isSealed, false)
  await segment.seal()
  assert.equal(segment.isSealed, true)
  assert.deepEqual(new Uint8Array(await readFile(path)), await sealBlocks(blocks))
  assert.deepEqual(await rowsOf(segment), blocks.flat())
  await assert.rejects(segment.appendBlock([makeRow(99)]), { problem: 'already-sealed' })
  await assert.rejects(segment.seal(), { problem: 'already-sealed' })
  await segment.close()
})

test('a read in progress ends well when the segment is closed, and later ones are refused', async () => {
  await using scratch = await scratchDirectory()
  const path = join(scratch.path, 'seg_0000000000.jss')
  await writeActive(path)
  const segment = await ActiveSegment.recover(path)
  const reading = segment.readBlock(0)
  const closed = segment.close()
  await assert.rejects(segment.readBlock(0), { problem: 'closed' })
  assert.deepEqual((await reading).rows(), blocks[0])
  await closed
})
