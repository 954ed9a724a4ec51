import { type BlockEntry, framePrefixBytes } from './block-index.ts'
import { type BlockView, decodeBlock } from './block-view.ts'
import { SegmentError } from './errors.ts'
import { readU64, viewOf, write64 } from './integers.ts'
import { type Decompress, unpackFrame } from './zstd-frame.ts'

/** Reads a stored frame without its prefix, as getBlock serves it. Throws SegmentError `bad-frame` or `bad-block`. */
export function decodeFrame(frame: Uint8Array, decompress: Decompress, bodyBytesMax?: number): BlockView {
  return decodeBlock(unpackFrame(frame, decompress, bodyBytesMax))
}

/** A frame as it stands in a file, with its length before it. */
export function storedFrame(frame: Uint8Array): Uint8Array {
  const stored = new Uint8Array(framePrefixBytes + frame.length)
  write64(viewOf(stored), 0, frame.length)
  stored.set(frame, framePrefixBytes)
  return stored
}

/** The frame within `stored`, which is a block with its length prefix. Throws SegmentError `bad-frame`. */
export function frameOf(stored: Uint8Array, entry: BlockEntry): Uint8Array {
  if (readU64(viewOf(stored), 0, 'bad-frame') !== entry.compressedSize) {
    throw new SegmentError('bad-frame', 'the length before a frame is not the one in the block index')
  }
  return stored.subarray(framePrefixBytes)
}

/** Decodes a block body and compares it with its entry; rows must lie inside the envelope. Throws `bad-block`. */
export function decodeEntry(body: Uint8Array, entry: BlockEntry): BlockView {
  if (body.length !== entry.uncompressedSize) {
    throw new SegmentError(
      'bad-block',
      `block of ${body.length} bytes, ${entry.uncompressedSize} in the block index`,
    )
  }
  const block = decodeBlock(body)
  if (block.count !== entry.eventCount) {
    throw new SegmentError(
      'bad-block',
      `block of ${block.count} rows, ${entry.eventCount} in the block index`,
    )
  }
  if (block.count > 0 && (block.seqAt(0) < entry.minSeq || block.seqAt(block.count - 1) > entry.maxSeq)) {
    throw new SegmentError('bad-block', 'block has rows outside the seqs in the block index')
  }
  return block
}
