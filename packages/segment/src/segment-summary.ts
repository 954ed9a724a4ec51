import { type BlockEntry, blockEnd, encodeBlockIndex } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { encodeCollectionIndex, type PackFrame, type SegmentCollection } from './collection-index.ts'
import { type DidHash, encodeBlockFilters, encodeFilter, hashDid } from './did-filter.ts'
import { shapeFilter } from './filter-sizing.ts'
import { encodeSealedHeader, headerBytes, type SegmentTotals } from './header.ts'
import { markerNameOf } from './row.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/**
 * What the header and the footer of a sealed segment say about its rows, gathered block by block while they are
 * written or read. Everything derives from the rows, except the entries' envelopes, which a rewrite passes on.
 */
export class SegmentSummary {
  readonly #entries: BlockEntry[] = []
  readonly #dids = new Map<string, DidHash>()
  readonly #didsByBlock: Set<DidHash>[] = []
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

  /**
   * Adds the next block of the file.
   * @param rows those rows of `block` that are in the file, ascending. Default: all.
   */
  addBlock(entry: BlockEntry, block: BlockView, rows?: readonly number[]): void {
    const dids = new Set<DidHash>()
    const collectionIds = new Set<number>()
    const count = rows?.length ?? block.count
    for (let at = 0; at < count; at++) {
      const i = rows?.[at] ?? at
      const did = block.didAt(i)
      if (did !== '') dids.add(this.#didHash(did))
      const collection = block.collectionAt(i)
      if (collection !== '') collectionIds.add(this.#collectionId(collection, 1))
      const marker = markerNameOf(block.kindAt(i))
      if (marker !== undefined) collectionIds.add(this.#collectionId(marker, 0))
    }
    this.#entries.push(entry)
    this.#didsByBlock.push(dids)
    this.#collectionIdsByBlock.push(collectionIds)
  }

  /**
   * The header and footer that seal the blocks added so far. `blockFilterCapacity` sizes the per-block filters;
   * by default for the block with the most distinct DIDs.
   */
  async seal(
    packFrame: PackFrame,
    blockFilterCapacity: number = this.#didsByBlock.reduce((most, dids) => Math.max(most, dids.size), 1),
  ): Promise<{ header: Uint8Array; footer: Uint8Array }> {
    const blockIndex = encodeBlockIndex(this.#entries)
    const didFilter = await encodeFilter(shapeFilter(this.#dids.size), this.#dids.values())
    const blockDidFilters = await encodeBlockFilters(shapeFilter(blockFilterCapacity), this.#didsByBlock)
    const collectionIndex = await encodeCollectionIndex(
      this.collections(),
      this.#collectionIdsByBlock,
      packFrame,
    )
    const footer = joinBytes([blockIndex, didFilter, blockDidFilters, collectionIndex])

    const footerOffset = this.end
    const didFilterOffset = footerOffset + blockIndex.length
    const blockDidFiltersOffset = didFilterOffset + didFilter.length
    const collectionIndexOffset = blockDidFiltersOffset + blockDidFilters.length
    const offsets = { footerOffset, didFilterOffset, blockDidFiltersOffset, collectionIndexOffset }
    return { header: encodeSealedHeader({ ...this.totals(), ...offsets }, footer), footer }
  }

  /** The header's counts and envelopes. */
  totals(): SegmentTotals {
    const entries = this.#entries
    const first = entries[0]
    return {
      blockCount: entries.length,
      eventCount: entries.reduce((sum, entry) => sum + entry.eventCount, 0),
      uniqueDidCount: this.#dids.size,
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
    }
  }

  /** The names of the collection index, by id. */
  collections(): SegmentCollection[] {
    return Array.from(this.#collections, ([name, { count }]) => ({ name, count }))
  }

  /** Ids of the collections and markers in a block. */
  collectionIdsOf(blockIndex: number): ReadonlySet<number> {
    return this.#collectionIdsByBlock[blockIndex] ?? new Set()
  }

  /** The distinct DIDs of a block. */
  didsOf(blockIndex: number): ReadonlySet<DidHash> {
    return this.#didsByBlock[blockIndex] ?? new Set()
  }

  #didHash(did: string): DidHash {
    let hash = this.#dids.get(did)
    if (!hash) {
      // A copy: the slice that came from the block would keep the block's whole DID column alive.
      const bytes = encoder.encode(did)
      hash = hashDid(bytes)
      this.#dids.set(decoder.decode(bytes), hash)
    }
    return hash
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
