import type { BlockView } from './block-view.ts'
import { freeBytes } from './free-bytes.ts'
import { packFrame } from './node-zstd.ts'
import { unpackBlock } from './read-block.ts'
import type { Piece } from './rewrite-segment.ts'
import { isMaterialisingKind } from './row.ts'
import type { SealedSegment } from './sealed-segment.ts'

export interface Compactor {
  /** Whether a block of a segment may hold a row that goes. It is not read when it may not. */
  mayHold: (segment: SealedSegment, blockIndex: number) => boolean | Promise<boolean>
  /** Whether a row goes. Asked only of rows that put a record in place; all others stay. */
  isDropped: (block: BlockView, i: number) => boolean
  /** Called before each block that is read, with its bytes: waiting here is how a rewrite keeps its pace. */
  pace?: (bytes: number) => Promise<void>
}

/** Whether a rewrite would leave out any row (segment-format.md 10.1). @throws SegmentError for a damaged block. */
export async function wouldDrop(segment: SealedSegment, compactor: Compactor): Promise<boolean> {
  for (const [i, { compressedSize }] of segment.blocks.entries()) {
    if (!(await compactor.mayHold(segment, i))) continue
    await compactor.pace?.(compressedSize)
    const block = await segment.readBlock(i)
    const isKept = keptRows(block, compactor) === undefined
    freeBytes(block.body)
    if (!isKept) return true
  }
  return false
}

/**
 * The blocks of a segment without the rows that go. Blocks that lose none keep their frames byte for byte; those that lose
 * all stay as empty ones, so that the others keep their places. Each is freed when the next one is asked for.
 * @param onDropped called with how many rows a block has lost.
 * @throws SegmentError for a damaged block.
 */
export async function* compactedPieces(
  segment: SealedSegment,
  compactor: Compactor,
  onDropped: (rows: number) => void,
): AsyncGenerator<Piece> {
  for (const [i, entry] of segment.blocks.entries()) {
    await compactor.pace?.(entry.compressedSize)
    const frame = await segment.readFrame(i)
    const block = await unpackBlock(frame, entry)
    const rows = keptRows(block, compactor)
    if (!rows) yield { frame, block, entry }
    else {
      onDropped(block.count - rows.length)
      const body = block.bodyWith(rows)
      const counts = { eventCount: rows.length, uncompressedSize: body.length }
      const packed = await packFrame(body)
      freeBytes(body)
      yield { frame: packed, block, rows, entry: { ...entry, ...counts } }
      freeBytes(packed)
    }
    freeBytes(frame)
    freeBytes(block.body)
  }
}

/** The indices of the rows that stay; undefined when all do. */
function keptRows(block: BlockView, { isDropped }: Compactor): number[] | undefined {
  const kept: number[] = []
  for (let i = 0; i < block.count; i++)
    if (!isMaterialisingKind(block.kindAt(i)) || !isDropped(block, i)) kept.push(i)
  return kept.length === block.count ? undefined : kept
}
