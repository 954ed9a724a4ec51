import type { BlockEntry, BlockView } from '@tributary/segment'
import type { SegmentDirectory } from '@tributary/segment/node'

/** A block of the archive, sealed or not. */
export interface BlockPlace {
  /** Names the block's content for as long as the service runs. */
  readonly key: string
  readonly minSeq: number
  readonly maxSeq: number
  load(): Promise<BlockView>
}

/** Finds blocks for readers, in sealed segments and in the active one alike. */
export class BlockPlaces {
  readonly #segments: SegmentDirectory

  constructor(segments: SegmentDirectory) {
    this.#segments = segments
  }

  /** The newest row that is in a block; 0 when there is none. */
  get blockSeq(): number {
    return this.#segments.lastSeq
  }

  /** When the first row of any block was witnessed, in microseconds. */
  get oldestWitnessedAt(): number | undefined {
    return this.#first(({ eventCount }) => eventCount > 0)?.minWitnessedAt
  }

  /** The first block that reaches above a seq. */
  blockAfter(seq: number): BlockPlace | undefined {
    const location = this.#segments.firstBlockAfter(seq)
    if (!location) return undefined
    const { segmentIndex, blockIndex, entry } = location
    return {
      // A rewritten block has another size, or the same rows.
      key: `${segmentIndex}/${blockIndex}/${entry.compressedSize}/${entry.eventCount}`,
      minSeq: entry.minSeq,
      maxSeq: entry.maxSeq,
      load: () => this.#segments.readBlock(location),
    }
  }

  /** The first block with a row witnessed at or after a time in microseconds. */
  blockWitnessedAt(micros: number): BlockPlace | undefined {
    const entry = this.#first(({ eventCount, maxWitnessedAt }) => eventCount > 0 && maxWitnessedAt >= micros)
    return entry && this.blockAfter(entry.maxSeq - 1)
  }

  /** The first block that is wanted. The blocks of a segment are looked at when its header is wanted: there are many. */
  #first(
    isWanted: (of: Pick<BlockEntry, 'eventCount' | 'maxWitnessedAt'>) => boolean,
  ): BlockEntry | undefined {
    for (const { header, blocks } of this.#segments.sealed) {
      const found = isWanted(header) && blocks.find(isWanted)
      if (found) return found
    }
    return this.#segments.activeBlocks.find(isWanted)
  }
}
