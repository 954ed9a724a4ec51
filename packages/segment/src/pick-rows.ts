import { blockLayout, columnWidths } from './block-layout.ts'
import { viewOf } from './integers.ts'

/** The bytes of one blob of a block body: where it begins, and where the value of each row ends in it. */
export interface BlobColumn {
  readonly start: number
  readonly ends: Uint32Array
}

/** Rows from the first up to, but not, the end. */
interface RowRange {
  readonly first: number
  readonly end: number
}

/**
 * The body of a block that has only some rows of another one. Bytes are moved and nothing is decoded, because a rewrite of
 * a segment keeps nearly all of its rows.
 * @param blobs the columns of variable width, in the order in which they stand in the body.
 * @param rows indices of rows, ascending.
 */
export function pickRows(
  body: Uint8Array,
  blobs: readonly BlobColumn[],
  rows: readonly number[],
): Uint8Array {
  const from = blockLayout(blobs[0]?.ends.length ?? 0)
  const to = blockLayout(rows.length)
  const ranges = rangesOf(rows)
  const picked = new Uint8Array(to.blobs + bytesOf(blobs, ranges))
  viewOf(picked).setUint32(0, rows.length, true)
  for (const [name, width] of Object.entries(columnWidths)) {
    const column = name as keyof typeof columnWidths // they are its names
    let at = to[column]
    for (const { first, end } of ranges) {
      picked.set(body.subarray(from[column] + width * first, from[column] + width * end), at)
      at += width * (end - first)
    }
  }
  let at = to.blobs
  for (const { start, ends } of blobs) {
    for (const { first, end } of ranges) {
      const values = body.subarray(start + startOf(ends, first), start + startOf(ends, end))
      picked.set(values, at)
      at += values.length
    }
  }
  return picked
}

function rangesOf(rows: readonly number[]): RowRange[] {
  const ranges: RowRange[] = []
  for (let at = 0; at < rows.length;) {
    const first = rows[at] ?? 0
    let end = first
    while (rows[at] === end) {
      at++
      end++
    }
    ranges.push({ first, end })
  }
  return ranges
}

function bytesOf(blobs: readonly BlobColumn[], ranges: readonly RowRange[]): number {
  let bytes = 0
  for (const { ends } of blobs)
    for (const { first, end } of ranges) bytes += startOf(ends, end) - startOf(ends, first)
  return bytes
}

/** Where the value of a row begins, which is where the value before it ends. */
function startOf(ends: Uint32Array, i: number): number {
  return i === 0 ? 0 : (ends[i - 1] ?? 0)
}
