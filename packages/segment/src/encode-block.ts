import { blockLayout } from './block-layout.ts'
import { SegmentError } from './errors.ts'
import { viewOf, write64 } from './integers.ts'
import { segmentLimits } from './limits.ts'
import type { Row } from './row.ts'

const encoder = new TextEncoder()

/**
 * The uncompressed body of a block, column by column (segment-format.md 4.1). No rows give the empty body.
 * Throws SegmentError `bad-row` when seqs do not ascend from 1, a number is not a safe integer, a kind is unknown or a
 * string does not fit its column, and `bad-block` when there are too many rows or bytes.
 */
export function encodeBlockBody(rows: readonly Row[]): Uint8Array {
  const count = rows.length
  if (count > segmentLimits.blockRows) {
    throw new SegmentError('bad-block', `${count} rows do not fit one block`)
  }
  checkNumbers(rows)
  const collections = encodeColumn(rows, 'collection', segmentLimits.collectionBytes)
  const dids = encodeColumn(rows, 'did', segmentLimits.didBytes)
  const rkeys = encodeColumn(rows, 'rkey', segmentLimits.rkeyBytes)
  const revs = encodeColumn(rows, 'rev', segmentLimits.revBytes)
  const layout = blockLayout(count)
  let bytesTotal = layout.blobs
  for (const column of [collections, dids, rkeys, revs]) bytesTotal += column.bytes.length
  for (const row of rows) bytesTotal += row.payload.length
  if (bytesTotal > segmentLimits.blockBodyBytes) {
    throw new SegmentError('bad-block', `a block body of ${bytesTotal} bytes is too large`)
  }

  const body = new Uint8Array(bytesTotal)
  const view = viewOf(body)
  view.setUint32(0, count, true)
  let blobAt = layout.blobs
  for (const column of [collections, dids, rkeys, revs]) {
    body.set(column.bytes, blobAt)
    blobAt += column.bytes.length
  }
  rows.forEach((row, i) => {
    write64(view, layout.seqs + 8 * i, row.seq)
    write64(view, layout.witnessedAts + 8 * i, row.witnessedAt)
    write64(view, layout.indexedAts + 8 * i, row.indexedAt)
    view.setUint8(layout.kinds + i, row.kind)
    view.setUint8(layout.collectionLengths + i, collections.lengthAt(i))
    view.setUint16(layout.didLengths + 2 * i, dids.lengthAt(i), true)
    view.setUint8(layout.rkeyLengths + i, rkeys.lengthAt(i))
    view.setUint8(layout.revLengths + i, revs.lengthAt(i))
    view.setUint32(layout.payloadLengths + 4 * i, row.payload.length, true)
    body.set(row.payload, blobAt)
    blobAt += row.payload.length
  })
  return body
}

function checkNumbers(rows: readonly Row[]): void {
  let previousSeq = 0
  for (const { seq, witnessedAt, indexedAt, kind } of rows) {
    if (!Number.isSafeInteger(seq) || seq <= previousSeq) {
      throw new SegmentError('bad-row', `seq ${seq} does not follow ${previousSeq}`)
    }
    if (!Number.isSafeInteger(witnessedAt) || !Number.isSafeInteger(indexedAt)) {
      throw new SegmentError('bad-row', `row ${seq} has a time that is not a safe integer`)
    }
    if (!Number.isInteger(kind) || kind < 1 || kind > 7) {
      throw new SegmentError('bad-row', `row ${seq} has the unknown kind ${kind}`)
    }
    previousSeq = seq
  }
}

interface EncodedColumn {
  readonly bytes: Uint8Array
  lengthAt(i: number): number
}

/** Encodes a whole column at once; in ASCII, which is nearly always, byte lengths are then the string lengths. */
function encodeColumn(
  rows: readonly Row[],
  name: 'collection' | 'did' | 'rkey' | 'rev',
  valueBytesMax: number,
): EncodedColumn {
  let text = ''
  for (const row of rows) text += row[name]
  const bytes = encoder.encode(text)
  const isAscii = bytes.length === text.length
  const lengths = rows.map((row) => (isAscii ? row[name].length : encoder.encode(row[name]).length))
  rows.forEach((row, i) => {
    const length = lengths[i] ?? 0
    if (length > valueBytesMax) {
      throw new SegmentError(
        'bad-row',
        `row ${row.seq} has a ${name} of ${length} bytes, over ${valueBytesMax}`,
      )
    }
    if (!isAscii && !row[name].isWellFormed()) {
      throw new SegmentError('bad-row', `row ${row.seq} has a ${name} that is not well-formed text`)
    }
  })
  return { bytes, lengthAt: (i) => lengths[i] ?? 0 }
}
