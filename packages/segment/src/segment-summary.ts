import { type BlockEntry, blockEnd, encodeBlockIndex } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { encodeCollectionIndex, type PackFrame } from './collection-index.ts'
import { type DidHash, encodeFilter, filterBytes, hashDid } from './did-filter.ts'
import { shapeFilter } from './filter-sizing.ts'
import { encodeSealedHeader, headerBytes } from './header.ts'
import { viewOf } from './integers.ts'
import { markerNameOf } from './row.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * What the header and the footer of a sealed segment say about its rows, gathered block by block while they are
 * written or read. Everything derives from the rows, except the entries' envelopes, which a rewrite passes on.
 */
export class SegmentSummary {
  readonly #entries: BlockEntry[] = []
  readonly #didIds = new Map<string, number>()
  readonly #didHashes: DidHash[] = []
  readonly #didIdsByBlock: Set<number>[] = []
  readonly #collections = new Map<string, { readonly id: number; count: number }>()
  readonly #collectionIdsByBlock: Set<number>[] = []

  get entries(): readonly BlockEntry[] {
    return this.#entries
  }

  /** First byte after the last block. */
  get end(): number {
    const last = this.#entries.at(-1)
    return last ? blockEnd(last) : headerBytes
  }

  /** Adds the next block of the file. */
  addBlock(entry: BlockEntry, block: BlockView): void {
    const didIds = new Set<number>()
    const collectionIds = new Set<number>()
    for (let i = 0; i < block.count; i++) {
      const did = block.didAt(i)
      if (did !== '') didIds.add(this.#didId(did))
      const collection = block.collectionAt(i)
      if (collection !== '') collectionIds.add(this.#collectionId(collection, 1))
      const marker = markerNameOf(block.kindAt(i))
      if (marker !== undefined) collectionIds.add(this.#collectionId(marker, 0))
    }
    this.#entries.push(entry)
    this.#didIdsByBlock.push(didIds)
    this.#collectionIdsByBlock.push(collectionIds)
  }

  /**
   * The header and footer that seal the blocks added so far. `blockFilterCapacity` sizes the per-block filters;
   * by default for the block with the most distinct DIDs.
   */
  async seal(
    packFrame: PackFrame,
    blockFilterCapacity: number = this.#didIdsByBlock.reduce((most, ids) => Math.max(most, ids.size), 1),
  ): Promise<{ header: Uint8Array; footer: Uint8Array }> {
    const blockIndex = encodeBlockIndex(this.#entries)
    const didFilter = encodeFilter(shapeFilter(this.#didHashes.length), this.#didHashes)
    const blockDidFilters = this.#encodeBlockFilters(blockFilterCapacity)
    const collections = Array.from(this.#collections, ([name, { count }]) => ({ name, count }))
    const collectionIndex = await encodeCollectionIndex(collections, this.#collectionIdsByBlock, packFrame)
    const footer = joinBytes([blockIndex, didFilter, blockDidFilters, collectionIndex])

    const entries = this.#entries
    const first = entries[0]
    const footerOffset = this.end
    const didFilterOffset = footerOffset + blockIndex.length
    const blockDidFiltersOffset = didFilterOffset + didFilter.length
    const header = encodeSealedHeader(
      {
        blockCount: entries.length,
        eventCount: entries.reduce((sum, entry) => sum + entry.eventCount, 0),
        uniqueDidCount: this.#didHashes.length,
        minSeq: first?.minSeq ?? 0,
        maxSeq: entries.at(-1)?.maxSeq ?? 0,
        minWitnessedAt: entries.reduce(
          (min, entry) => Math.min(min, entry.minWitnessedAt),
          first?.minWitnessedAt ?? 0,
        ),
        maxWitnessedAt: entries.reduce(
          (max, entry) => Math.max(max, entry.maxWitnessedAt),
          first?.maxWitnessedAt ?? 0,
        ),
        footerOffset,
        didFilterOffset,
        blockDidFiltersOffset,
        collectionIndexOffset: blockDidFiltersOffset + blockDidFilters.length,
      },
      footer,
    )
    return { header, footer }
  }

  #didId(did: string): number {
    let id = this.#didIds.get(did)
    if (id === undefined) {
      id = this.#didHashes.length
      // A copy: the slice that came from the block would keep the block's whole DID column alive.
      const bytes = encoder.encode(did)
      this.#didIds.set(decoder.decode(bytes), id)
      this.#didHashes.push(hashDid(bytes))
    }
    return id
  }

  #collectionId(name: string, rows: 0 | 1): number {
    let collection = this.#collections.get(name)
    if (!collection) {
      collection = { id: this.#collections.size, count: 0 }
      this.#collections.set(name, collection)
    }
    collection.count += rows
    return collection.id
  }

  #encodeBlockFilters(capacity: number): Uint8Array {
    const shape = shapeFilter(capacity)
    const prefix = new Uint8Array(8)
    const view = viewOf(prefix)
    view.setUint32(0, this.#entries.length, true)
    view.setUint32(4, this.#entries.length === 0 ? 0 : filterBytes(shape), true)
    const filters = this.#didIdsByBlock.map((ids) =>
      encodeFilter(
        shape,
        Array.from(ids, (id) => this.#didHashes[id]).filter((hash) => hash !== undefined),
      ),
    )
    return joinBytes([prefix, ...filters])
  }
}

function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
