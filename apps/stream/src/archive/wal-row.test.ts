import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Row, RowKind } from '@tributary/segment'
import { decodeWalRow, encodeWalHead, WalRowError } from './wal-row.ts'

const text = (maxLength: number): fc.Arbitrary<string> => fc.string({ unit: 'grapheme', maxLength })
const anyRow: fc.Arbitrary<Row> = fc.record({
  seq: fc.integer({ min: 1, max: 2 ** 50 }),
  kind: fc.constantFrom<RowKind>(1, 2, 3, 4, 5, 6, 7),
  witnessedAt: fc.integer({ min: 0, max: 2 ** 52 }),
  indexedAt: fc.integer({ min: 0, max: 2 ** 52 }),
  collection: text(12),
  did: text(40),
  rkey: text(12),
  rev: text(12),
  payload: fc.uint8Array({ maxLength: 300 }),
})

function encode(row: Row): Buffer {
  return Buffer.concat([encodeWalHead(row), row.payload])
}

test('a row is read back as it was written', () => {
  fc.assert(
    fc.property(anyRow, (row) => {
      const back = decodeWalRow(row.seq, row.kind, encode(row))
      assert.deepEqual({ ...back, payload: [...back.payload] }, { ...row, payload: [...row.payload] })
    }),
  )
})

test('a record that is cut, of another version or of an unknown kind is refused', () => {
  fc.assert(
    fc.property(anyRow, (row) => {
      const head = encodeWalHead(row)
      assert.throws(() => decodeWalRow(row.seq, row.kind, head.subarray(0, head.length - 1)), WalRowError)
      assert.throws(() => decodeWalRow(row.seq, 0, head), WalRowError)
      assert.throws(
        () => decodeWalRow(row.seq, row.kind, Buffer.concat([Buffer.of(2), head.subarray(1)])),
        WalRowError,
      )
    }),
  )
})
