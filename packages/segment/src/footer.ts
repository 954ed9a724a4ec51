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
  const checksum = segmentChecksum(head, footer)
  if (checksum !== header.checksum) {
    throw new SegmentError(
      'bad-checksum',
      `segment checksum is ${checksum}, its header says ${header.checksum}`,
    )
  }
  const { blockCount, footerOffset } = header
  const section = (start: number, end?: number): Uint8Array =>
    footer.subarray(start - footerOffset, end === undefined ? footer.length : end - footerOffset)
  const blocks = decodeBlockIndex(section(footerOffset, header.didFilterOffset), blockCount, footerOffset)
  BlockDidFilters.decode(section(header.blockDidFiltersOffset, header.collectionIndexOffset), blockCount)
  const collections = decodeCollectionIndex(section(header.collectionIndexOffset), blockCount, decompress)
  return { header, blocks, collections }
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
