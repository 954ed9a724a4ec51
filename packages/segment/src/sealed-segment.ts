import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { type BlockEntry, entryAt } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import type { CollectionIndex } from './collection-index.ts'
import { BlockDidFilters, DidFilter } from './did-filter.ts'
import { inFile, SegmentError } from './errors.ts'
import { FilterCache } from './filter-cache.ts'
import { checkFilters, checkSum, decodeIndexes, type SegmentFooter, type SegmentReader } from './footer.ts'
import { decodeSealedHeader, headerBytes, type SegmentHeader } from './header.ts'
import type { KnownSegments } from './known-segments.ts'
import { nodeDecompress } from './node-zstd.ts'
import { readBlock, readFrame } from './read-block.ts'
import { SegmentFile } from './segment-file.ts'
import { parseSegmentName } from './segment-name.ts'

/** Bytes of one chunk of a whole file on its way to a client. */
const chunkBytes = 256 * 1024
/** What a filter costs in memory beside its bytes, about. */
const bytesPerFilter = 300

/**
 * A sealed segment file, open for reading. Header, block index and collection index are in memory; the DID filters,
 * about a hundredth of the file, are read when a plan asks for DIDs, and kept while there is room. All reads are of the file that was opened, also
 * after a rewrite has taken over its name.
 */
export class SealedSegment implements SegmentReader, AsyncDisposable {
  readonly name: string
  readonly index: number
  readonly fileBytes: number
  /** When the file was last written, Unix milliseconds. */
  readonly modifiedAtMs: number
  readonly header: SegmentHeader
  readonly blocks: readonly BlockEntry[]
  readonly collections: CollectionIndex
  readonly #file: SegmentFile
  readonly #filters: FilterCache
  readonly #filterKeys = { ofSegment: {}, ofBlocks: {} }

  private constructor(
    file: SegmentFile,
    stat: { name: string; index: number; fileBytes: number; modifiedAtMs: number },
    footer: SegmentFooter,
    filters: FilterCache,
  ) {
    this.name = stat.name
    this.index = stat.index
    this.fileBytes = stat.fileBytes
    this.modifiedAtMs = stat.modifiedAtMs
    this.header = footer.header
    this.blocks = footer.blocks
    this.collections = footer.collections
    this.#file = file
    this.#filters = filters
  }

  /**
   * Opens and checks a sealed segment. Throws SegmentError, `bad-name` for a file that is not named like one.
   * @param filters where its DID filters are kept once they were read. Default: nowhere.
   * @param known segments whose whole footer was checked before: of those only the indexes are read. Default: none.
   */
  static async open(
    path: string,
    filters: FilterCache = new FilterCache(0),
    known?: KnownSegments,
  ): Promise<SealedSegment> {
    const name = basename(path)
    const index = parseSegmentName(name)
    if (index === undefined) throw new SegmentError('bad-name', `${name} is not the name of a segment`)
    const file = new SegmentFile(path, await open(path, 'r'))
    try {
      using reader = file.lease()
      const { size, mtimeMs } = await file.handle.stat()
      const head = await reader.read(0, Math.min(size, headerBytes))
      const header = decodeSealedHeader(head, size)
      const { footerOffset, didFilterOffset, collectionIndexOffset } = header
      const blockIndex = await reader.read(footerOffset, didFilterOffset - footerOffset)
      const collectionIndex = await reader.read(collectionIndexOffset, size - collectionIndexOffset)
      const indexes = [head, blockIndex, collectionIndex]
      const isKnown = known?.has(name, size, header.checksum, indexes) === true
      const whole = isKnown ? undefined : await reader.read(footerOffset, size - footerOffset)
      if (whole) checkSum(header, head, whole)
      const footer = decodeIndexes(header, blockIndex, collectionIndex, nodeDecompress)
      if (whole) {
        checkFilters(header, whole)
        known?.add(name, size, header.checksum, indexes)
      }
      const stat = { name, index, fileBytes: size, modifiedAtMs: mtimeMs }
      return new SealedSegment(file, stat, footer, filters)
    } catch (error) {
      await file.close()
      throw inFile(path, error)
    }
  }

  /** The stored zstd frame of a block, without its length prefix, as getBlock serves it. Throws SegmentError. */
  async readFrame(index: number): Promise<Uint8Array> {
    return readFrame(this.#file, entryAt(this.blocks, index))
  }

  async readBlock(index: number): Promise<BlockView> {
    return readBlock(this.#file, entryAt(this.blocks, index))
  }

  async readDidFilter(): Promise<DidFilter> {
    const { didFilterOffset, blockDidFiltersOffset } = this.header
    return this.#filters.get(
      this.#filterKeys.ofSegment,
      { bytes: blockDidFiltersOffset - didFilterOffset + bytesPerFilter, rank: 'first' },
      async () => DidFilter.decode(await this.#readSection(didFilterOffset, blockDidFiltersOffset)),
    )
  }

  async readBlockDidFilters(): Promise<BlockDidFilters> {
    const { blockDidFiltersOffset, collectionIndexOffset, blockCount } = this.header
    return this.#filters.get(
      this.#filterKeys.ofBlocks,
      {
        bytes: collectionIndexOffset - blockDidFiltersOffset + bytesPerFilter * (blockCount + 1),
        rank: 'lesser',
      },
      async () =>
        BlockDidFilters.decode(
          await this.#readSection(blockDidFiltersOffset, collectionIndexOffset),
          blockCount,
        ),
    )
  }

  /** The file's bytes from `start` up to `end` (exclusive), in chunks of 256 KiB. Ending the loop ends the read. */
  async *readBytes(start = 0, end: number = this.fileBytes): AsyncGenerator<Uint8Array, void> {
    using reader = this.#file.lease()
    for (let at = start; at < end; at += chunkBytes) {
      yield await reader.read(at, Math.min(chunkBytes, end - at))
    }
  }

  /** Refuses new reads and resolves when the last one is done. */
  async close(): Promise<void> {
    this.#forgetFilters()
    await this.#file.close()
    // Again, because one that was being read may be kept since.
    this.#forgetFilters()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #forgetFilters(): void {
    for (const key of Object.values(this.#filterKeys)) this.#filters.delete(key)
  }

  async #readSection(start: number, end: number): Promise<Uint8Array> {
    using reader = this.#file.lease()
    return await reader.read(start, end - start)
  }
}
