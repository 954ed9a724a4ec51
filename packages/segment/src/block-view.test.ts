import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { anyRows, makeRow, makeRows } from '../tests/rows.ts'
import { describeBlock } from './block-index.ts'
import { decodeBlock } from './block-view.ts'
import { encodeBlockBody } from './encode-block.ts'
import { segmentLimits } from './limits.ts'
import type { Row } from './row.ts'
import { decodeEntry } from './stored-block.ts'

test('columns are read one by one without the rest of the row', () => {
  const rows = [
    makeRow(3),
    makeRow(5, { kind: 5, collection: '', rkey: '', rev: '', indexedAt: -7 }),
    makeRow(9),
  ]
  const block = decodeBlock(encodeBlockBody(rows))
  assert.equal(block.count, 3)
  rows.forEach((row, i) => {
    assert.equal(block.seqAt(i), row.seq)
    assert.equal(block.witnessedAtAt(i), row.witnessedAt)
    assert.equal(block.indexedAtAt(i), row.indexedAt)
    assert.equal(block.kindAt(i), row.kind)
    assert.equal(block.collectionAt(i), row.collection)
    assert.equal(block.didAt(i), row.did)
    assert.equal(block.rkeyAt(i), row.rkey)
    assert.equal(block.revAt(i), row.rev)
    assert.deepEqual(block.payloadAt(i), row.payload)
    assert.deepEqual(block.rowAt(i), row)
  })
  for (const i of [-1, 3, NaN]) assert.throws(() => block.rowAt(i), RangeError)
})

test('the rows above a seq start at firstAfter', () => {
  const block = decodeBlock(encodeBlockBody([makeRow(3), makeRow(5), makeRow(9)]))
  const starts = [0, 2, 3, 4, 5, 8, 9, 99].map((seq) => block.firstAfter(seq))
  assert.deepEqual(starts, [0, 0, 1, 1, 2, 2, 3, 3])
})

test('text outside ASCII keeps its bytes, in lengths counted in bytes', () => {
  const rows = [
    makeRow(1, { rkey: 'é世' }),
    makeRow(2, { rkey: '' }),
    makeRow(3, { rkey: '\ufeff🙂' }),
    makeRow(4),
  ]
  assert.deepEqual(decodeBlock(encodeBlockBody(rows)).rows(), rows)
})

test('a block of some rows of another one is the same as if it was encoded from them', () => {
  const anyPick = anyRows.chain((rows) => fc.tuple(fc.constant(rows), fc.subarray([...rows.keys()])))
  fc.assert(
    fc.property(anyPick, ([rows, kept]) => {
      const body = decodeBlock(encodeBlockBody(rows)).bodyWith(kept)
      assert.deepEqual(body, encodeBlockBody(rows.filter((_, i) => kept.includes(i))))
    }),
  )
})

test('a block without rows is four zero bytes', () => {
  assert.deepEqual(encodeBlockBody([]), new Uint8Array(4))
  assert.deepEqual(decodeBlock(new Uint8Array(4)).rows(), [])
})

test('columns hold their longest values', () => {
  const row = makeRow(1, {
    collection: 'c'.repeat(segmentLimits.collectionBytes),
    did: 'd'.repeat(segmentLimits.didBytes),
    rkey: 'k'.repeat(segmentLimits.rkeyBytes),
    rev: 'r'.repeat(segmentLimits.revBytes),
    payload: new Uint8Array(1_000_000).fill(7),
  })
  assert.deepEqual(decodeBlock(encodeBlockBody([row])).rows(), [row])
})

test('rows that no block can hold are refused before anything is written', () => {
  const refused: Partial<Row>[] = [
    { seq: 0 },
    { seq: 1.5 },
    { seq: 2 ** 53 },
    { witnessedAt: NaN },
    { witnessedAt: 2 ** 53 },
    { indexedAt: Infinity },
    { kind: 0 as Row['kind'] }, // What a caller without types might pass.
    { kind: 8 as Row['kind'] }, // As above.
    { collection: 'c'.repeat(256) },
    { did: 'd'.repeat(65_536) },
    { rkey: 'é'.repeat(128) },
    { rev: 'r'.repeat(256) },
    { did: 'did:plc:\ud83d' },
  ]
  for (const columns of refused) {
    assert.throws(() => encodeBlockBody([makeRow(1, columns)]), { name: 'SegmentError', problem: 'bad-row' })
  }
  const halves = [makeRow(1, { rkey: '\ud83d' }), makeRow(2, { rkey: '\ude42' })]
  assert.throws(() => encodeBlockBody(halves), { problem: 'bad-row' })
  assert.throws(() => encodeBlockBody([makeRow(2), makeRow(2)]), { problem: 'bad-row' })
  assert.throws(() => encodeBlockBody(makeRows(1, segmentLimits.blockRows + 1)), { problem: 'bad-block' })
})

test('a body that breaks a rule of the format is refused', () => {
  const good = encodeBlockBody([makeRow(1), makeRow(2)])
  const changed = (at: number, ...bytes: number[]): Uint8Array => {
    const body = Uint8Array.from(good)
    body.set(bytes, at)
    return body
  }
  const refused = {
    'cut short': good.subarray(0, good.length - 1),
    'trailing byte': Uint8Array.from([...good, 0]),
    'no row count': good.subarray(0, 3),
    'only fixed columns': good.subarray(0, 4 + 34 * 2),
    'short fixed columns': good.subarray(0, 4 + 34 * 2 - 1),
    'rows in an empty block': changed(0, 0),
    'more rows than there are': changed(0, 3),
    'far too many rows': changed(0, 0xff, 0xff, 0xff, 0xff),
    'seq 0': changed(4, 0),
    'seq repeated': changed(12, 1),
    'seq above 2^53': changed(11, 1),
    'time beyond 2^53': changed(27, 0x7f),
    'kind 0': changed(52, 0),
    'kind 8': changed(53, 8),
    'longer collection': changed(54, 17),
    'longer payload': changed(64, 0xff, 0xff, 0xff, 0xff),
    'text that is not UTF-8': changed(4 + 34 * 2, 0xff),
  }
  for (const [what, body] of Object.entries(refused)) {
    assert.throws(() => decodeBlock(body), { name: 'SegmentError', problem: 'bad-block' }, what)
  }
  const accented = encodeBlockBody([makeRow(1, { collection: 'é' }), makeRow(2, { collection: 'abc' })])
  accented.set([1, 4], 4 + 25 * 2)
  assert.throws(() => decodeBlock(accented), { problem: 'bad-block' }, 'a character split over two rows')
})

test('a block with rows outside of the seqs in its index entry is refused', () => {
  const body = encodeBlockBody(makeRows(4, 9))
  const entry = describeBlock(decodeBlock(body), 256, 100)
  assert.equal(decodeEntry(body, entry).count, 6)
  for (const wrong of [{ minSeq: 5 }, { maxSeq: 8 }])
    assert.throws(() => decodeEntry(body, { ...entry, ...wrong }), { problem: 'bad-block' })
})
