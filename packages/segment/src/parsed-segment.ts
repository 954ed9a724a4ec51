import { type BlockEntry, blockEnd, entryAt } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import type { CollectionIndex } from './collection-index.ts'
import { BlockDidFilters, DidFilter } from './did-filter.ts'
import { decodeFooter, type SegmentFooter, type SegmentReader } from './footer.ts'
import { decodeSealedHeader, headerBytes, type SegmentHeader } from './header.ts'
import { decodeEntry, frameOf } from './stored-block.ts'
import { type Decompress, unpackFrame } from './zstd-frame.ts'

/** A sealed segment held in memory, as a client downloads it. Blocks are decompressed when they are read. */
export class ParsedSegment implements SegmentReader {
  readonly header: SegmentHeader
  readonly blocks: readonly BlockEntry[]
  readonly collections: CollectionIndex
  readonly #bytes: Uint8Array
  readonly #decompress: Decompress

  constructor(bytes: Uint8Array, footer: SegmentFooter, decompress: Decompress) {
    this.header = footer.header
    this.blocks = footer.blocks
    this.collections = footer.collections
    this.#bytes = bytes
    this.#decompress = decompress
  }

  /** The stored zstd frame of a block, without its length prefix. Throws SegmentError. */
  readFrame(index: number): Uint8Array {
    const entry = entryAt(this.blocks, index)
    return frameOf(this.#bytes.subarray(entry.offset, blockEnd(entry)), entry)
  }

  readBlock(index: number): BlockView {
    const entry = entryAt(this.blocks, index)
    return decodeEntry(unpackFrame(this.readFrame(index), this.#decompress, entry.uncompressedSize), entry)
  }

  readDidFilter(): DidFilter {
    const { didFilterOffset, blockDidFiltersOffset } = this.header
    return DidFilter.decode(this.#bytes.subarray(didFilterOffset, blockDidFiltersOffset))
  }

  readBlockDidFilters(): BlockDidFilters {
    const { blockDidFiltersOffset, collectionIndexOffset, blockCount } = this.header
    return BlockDidFilters.decode(
      this.#bytes.subarray(blockDidFiltersOffset, collectionIndexOffset),
      blockCount,
    )
  }
}

/**
 * Opens a whole sealed file in memory, with every check of segment-format.md 11. Blocks are checked when they are
 * read: each has a content checksum of its own. Throws SegmentError.
 */
export function parseSegment(bytes: Uint8Array, decompress: Decompress): ParsedSegment {
  const head = bytes.subarray(0, headerBytes)
  const header = decodeSealedHeader(head, bytes.length)
  return new ParsedSegment(
    bytes,
    decodeFooter(header, head, bytes.subarray(header.footerOffset), decompress),
    decompress,
  )
}
