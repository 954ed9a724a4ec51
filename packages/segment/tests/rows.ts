import fc from 'fast-check'
import { describeBlock } from '../src/block-index.ts'
import { decodeBlock } from '../src/block-view.ts'
import { encodeBlockBody } from '../src/encode-block.ts'
import { segmentLimits } from '../src/limits.ts'
import { packFrame } from '../src/node-zstd.ts'
import type { Row, RowKind } from '../src/row.ts'
import { SegmentSummary } from '../src/segment-summary.ts'

/** When the first rows are witnessed, Unix milliseconds. */
export const witnessedAtMs = 1_750_000_000_000

/** A create of a small record; everything can be overridden. */
export function makeRow(seq: number, columns: Partial<Row> = {}): Row {
  return {
    seq,
    witnessedAt: witnessedAtMs * 1000 + seq,
    indexedAt: 0,
    kind: 1,
    collection: 'app.example.post',
    did: `did:plc:${'abcdefghijklmnopqrstuvwx'.slice(0, 20)}${String(seq % 7).padStart(4, '2')}`,
    rkey: `3l${String(seq).padStart(11, '2')}`,
    rev: '3lqdkdjpy6t2a',
    payload: Uint8Array.of(0xa1, 0x61, 0x6e, 0x18, seq & 0xff),
    ...columns,
  }
}

/** Rows with consecutive seqs, `from` to `to` inclusive. */
export function makeRows(from: number, to: number, columns: Partial<Row> = {}): Row[] {
  return Array.from({ length: to - from + 1 }, (_, i) => makeRow(from + i, columns))
}

const anyKind = fc.integer({ min: 1, max: 7 }) as fc.Arbitrary<RowKind> // The range is that of the type.
const textUpTo = (bytes: number): fc.Arbitrary<string> =>
  fc.oneof(
    fc.string({ maxLength: Math.min(bytes, 40) }),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
    fc.string({ minLength: Math.min(bytes, 300), maxLength: Math.min(bytes, 300) }),
  )

/** Any rows that a block can hold: every kind, odd text, long and empty columns, seqs that ascend with gaps. */
export const anyRows: fc.Arbitrary<Row[]> = fc
  .array(
    fc.record({
      seq: fc.integer({ min: 1, max: 2 ** 40 }), // The step from the row before.
      witnessedAt: fc.maxSafeInteger(),
      indexedAt: fc.maxSafeInteger(),
      kind: anyKind,
      collection: textUpTo(segmentLimits.collectionBytes),
      did: textUpTo(segmentLimits.didBytes),
      rkey: textUpTo(segmentLimits.rkeyBytes),
      rev: textUpTo(segmentLimits.revBytes),
      payload: fc.uint8Array({ maxLength: 200 }),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((rows) => {
    let seq = 0
    return rows.map((row) => ({ ...row, seq: (seq += row.seq) }))
  })

/** A sealed segment of these blocks, as the bytes of its file. */
export async function sealBlocks(blocks: readonly (readonly Row[])[]): Promise<Uint8Array> {
  const summary = new SegmentSummary()
  const stored: Uint8Array[] = []
  for (const rows of blocks) {
    const body = encodeBlockBody(rows)
    const frame = await packFrame(body)
    summary.addBlock(describeBlock(decodeBlock(body), summary.end, frame.length), decodeBlock(body))
    const prefix = new Uint8Array(8)
    new DataView(prefix.buffer).setBigUint64(0, BigInt(frame.length), true)
    stored.push(prefix, frame)
  }
  const { header, footer } = await summary.seal(packFrame)
  return Uint8Array.from(Buffer.concat([header, ...stored, footer]))
}
