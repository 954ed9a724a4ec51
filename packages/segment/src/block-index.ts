import type { BlockView } from './block-view.ts'
import { SegmentError } from './errors.ts'
import { headerBytes } from './header.ts'
import { readI64, readU64, viewOf, write64 } from './integers.ts'
import { segmentLimits } from './limits.ts'

const blockEntryBytes = 52
/** The u64 length before each stored frame. */
export const framePrefixBytes = 8

/** One block as the block index describes it (segment-format.md 6.1). */
export interface BlockEntry {
  /** Where the frame's 8-byte length prefix starts in the file. */
  readonly offset: number
  readonly compressedSize: number
  readonly uncompressedSize: number
  readonly eventCount: number
  /** Envelopes, kept by compaction even when rows or all rows go. */
  readonly minSeq: number
  readonly maxSeq: number
  readonly minWitnessedAt: number
  readonly maxWitnessedAt: number
}

/** The entry of a block that was just written or read back: its envelope is that of its rows. */
export function describeBlock(view: BlockView, offset: number, compressedSize: number): BlockEntry {
  let minWitnessedAt = view.count > 0 ? Infinity : 0
  let maxWitnessedAt = view.count > 0 ? -Infinity : 0
  for (let i = 0; i < view.count; i++) {
    const witnessedAt = view.witnessedAtAt(i)
    minWitnessedAt = Math.min(minWitnessedAt, witnessedAt)
    maxWitnessedAt = Math.max(maxWitnessedAt, witnessedAt)
  }
  return {
    offset,
    compressedSize,
    uncompressedSize: view.bodyBytes,
    eventCount: view.count,
    minSeq: view.count > 0 ? view.seqAt(0) : 0,
    maxSeq: view.count > 0 ? view.seqAt(view.count - 1) : 0,
    minWitnessedAt,
    maxWitnessedAt,
  }
}

/** The entry of a block. Throws SegmentError `no-such-block`. */
export function entryAt(entries: readonly BlockEntry[], index: number): BlockEntry {
  const entry = entries[index]
  if (!entry) throw new SegmentError('no-such-block', `no block ${index} among ${entries.length}`)
  return entry
}

/** First byte after a block's frame. */
export function blockEnd(entry: BlockEntry): number {
  return entry.offset + framePrefixBytes + entry.compressedSize
}

export function encodeBlockIndex(entries: readonly BlockEntry[]): Uint8Array {
  const bytes = new Uint8Array(blockEntryBytes * entries.length)
  const view = viewOf(bytes)
  entries.forEach((entry, i) => {
    const at = blockEntryBytes * i
    write64(view, at, entry.offset)
    view.setUint32(at + 8, entry.compressedSize, true)
    view.setUint32(at + 12, entry.uncompressedSize, true)
    view.setUint32(at + 16, entry.eventCount, true)
    write64(view, at + 20, entry.minSeq)
    write64(view, at + 28, entry.maxSeq)
    write64(view, at + 36, entry.minWitnessedAt)
    write64(view, at + 44, entry.maxWitnessedAt)
  })
  return bytes
}

/**
 * Reads the block index, which must fill `bytes`, with the checks of segment-format.md 11: blocks ascend without
 * overlap between header and footer, envelopes are not inverted, seqs of blocks with rows ascend.
 * Throws SegmentError `bad-block-index`.
 */
export function decodeBlockIndex(bytes: Uint8Array, blockCount: number, footerOffset: number): BlockEntry[] {
  if (bytes.length !== blockEntryBytes * blockCount) {
    throw new SegmentError('bad-block-index', `${bytes.length} bytes do not hold ${blockCount} block entries`)
  }
  const view = viewOf(bytes)
  const entries: BlockEntry[] = []
  let previousEnd = headerBytes
  let previousMaxSeq = 0
  for (let at = 0; at < bytes.length; at += blockEntryBytes) {
    const entry: BlockEntry = {
      offset: readU64(view, at, 'bad-block-index'),
      compressedSize: view.getUint32(at + 8, true),
      uncompressedSize: view.getUint32(at + 12, true),
      eventCount: view.getUint32(at + 16, true),
      minSeq: readU64(view, at + 20, 'bad-block-index'),
      maxSeq: readU64(view, at + 28, 'bad-block-index'),
      minWitnessedAt: readI64(view, at + 36, 'bad-block-index'),
      maxWitnessedAt: readI64(view, at + 44, 'bad-block-index'),
    }
    const refuse = (why: string): never => {
      throw new SegmentError('bad-block-index', `block ${entries.length} ${why}`)
    }
    if (entry.uncompressedSize > segmentLimits.blockBodyBytes) refuse('claims more bytes than a block has')
    if (entry.offset < previousEnd) refuse('overlaps what is before it')
    if (blockEnd(entry) > footerOffset) refuse('reaches into the footer')
    if (entry.maxSeq < entry.minSeq || entry.maxWitnessedAt < entry.minWitnessedAt)
      refuse('has an inverted envelope')
    if (entry.eventCount > 0) {
      if (entry.minSeq <= previousMaxSeq) refuse('does not follow the seqs before it')
      previousMaxSeq = entry.maxSeq
    }
    previousEnd = blockEnd(entry)
    entries.push(entry)
  }
  return entries
}

/**
 * For readers that hold a block in memory and do not know who wrote it.
 * @param bytesMax decompressed bytes of a block.
 * @throws SegmentError `bad-block-index` for a block that claims more.
 */
export function refuseLargeBlocks(blocks: readonly BlockEntry[], bytesMax: number): void {
  const at = blocks.findIndex(({ uncompressedSize }) => uncompressedSize > bytesMax)
  if (at >= 0) throw new SegmentError('bad-block-index', `block ${at} claims more than ${bytesMax} bytes`)
}
