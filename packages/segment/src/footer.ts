import { type BlockEntry, decodeBlockIndex } from './block-index.ts'
import { type CollectionIndex, decodeCollectionIndex } from './collection-index.ts'
import type { BlockView } from './block-view.ts'
import { BlockDidFilters, type DidFilter } from './did-filter.ts'
import { SegmentError } from './errors.ts'
import { segmentChecksum, type SegmentHeader } from './header.ts'
import type { Decompress } from './zstd-frame.ts'

/** What a sealed segment says about itself, without its DID filters, which are read when a question needs them. */
export interface SegmentFooter {
  readonly header: SegmentHeader
  readonly blocks: readonly BlockEntry[]
  readonly collections: CollectionIndex
}

/**
 * Reads the footer that belongs to a header, with every check of segment-format.md 11, the checksum included.
 * `head` is the 256 bytes that `header` was decoded from; `footer` reaches from its footerOffset to the end of the
 * file. Throws SegmentError.
 */
export function decodeFooter(
  header: SegmentHeader,
  head: Uint8Array,
  footer: Uint8Array,
  decompress: Decompress,
): SegmentFooter {
  checkSum(header, head, footer)
  const { footerOffset, didFilterOffset, collectionIndexOffset } = header
  const blockIndex = footer.subarray(0, didFilterOffset - footerOffset)
  const collectionIndex = footer.subarray(collectionIndexOffset - footerOffset)
  const decoded = decodeIndexes(header, blockIndex, collectionIndex, decompress)
  checkFilters(header, footer)
  return decoded
}

/** Checks a whole footer against the checksum in its header. Throws SegmentError `bad-checksum`. */
export function checkSum(header: SegmentHeader, head: Uint8Array, footer: Uint8Array): void {
  const checksum = segmentChecksum(head, footer)
  if (checksum !== header.checksum) {
    throw new SegmentError(
      'bad-checksum',
      `segment checksum is ${checksum}, its header says ${header.checksum}`,
    )
  }
}

/** Checks the form of the filters of a whole footer, which have checksums of their own. Throws SegmentError `bad-filter`. */
export function checkFilters(header: SegmentHeader, footer: Uint8Array): void {
  const { blockCount, footerOffset, blockDidFiltersOffset, collectionIndexOffset } = header
  const filters = footer.subarray(blockDidFiltersOffset - footerOffset, collectionIndexOffset - footerOffset)
  BlockDidFilters.decode(filters, blockCount)
}

/** Reads the two indexes of a footer, with their own checks. Throws SegmentError. */
export function decodeIndexes(
  header: SegmentHeader,
  blockIndex: Uint8Array,
  collectionIndex: Uint8Array,
  decompress: Decompress,
): SegmentFooter {
  const { blockCount, footerOffset } = header
  const blocks = decodeBlockIndex(blockIndex, blockCount, footerOffset)
  return { header, blocks, collections: decodeCollectionIndex(collectionIndex, blockCount, decompress) }
}

/** A sealed segment as plans and audits read it, from a file or from memory. */
export interface SegmentReader extends SegmentFooter {
  /** The filter over all DIDs of the segment. Throws SegmentError `bad-filter`. */
  readDidFilter(): DidFilter | Promise<DidFilter>
  /** The filters of the blocks. Throws SegmentError `bad-filter`. */
  readBlockDidFilters(): BlockDidFilters | Promise<BlockDidFilters>
  /** A decoded block. Throws SegmentError `no-such-block`, `bad-frame` or `bad-block`. */
  readBlock(index: number): BlockView | Promise<BlockView>
}
