import { crc32c } from './crc32c.ts'
import { SegmentError } from './errors.ts'
import { filterPartitions, type FilterShape } from './filter-sizing.ts'
import { xxh128Bytes } from './hash.ts'
import { readU64, viewOf, write64 } from './integers.ts'
import { segmentLimits } from './limits.ts'

const bitsAt = 21
const crcBytes = 4
const filterBlockBytes = 64

/** The hash of a DID, reduced to what a filter of any shape needs (segment-format.md 7.2). */
export interface DidHash {
  readonly high: number
  readonly low: number
  readonly folded: number
}

/** Hashes a DID, or any other key, once for all filters that are asked. */
export function hashDid(did: string | Uint8Array): DidHash {
  const view = viewOf(xxh128Bytes(did))
  return {
    high: view.getUint32(0),
    low: view.getUint32(4),
    folded: (view.getUint32(8) ^ view.getUint32(12)) >>> 0,
  }
}

/** Bytes of a serialized filter of this shape. */
export function filterBytes(shape: FilterShape): number {
  return bitsAt + filterBlockBytes * shape.numBlocks + crcBytes
}

/** The bit numbers that a key sets. Products stay below 2^53 because numBlocks is at most 2^21. */
export function filterBits(hash: DidHash, shape: FilterShape): number[] {
  const { numBlocks } = shape
  const block = Math.floor((hash.high * numBlocks + Math.floor((hash.low * numBlocks) / 2 ** 32)) / 2 ** 32)
  let partitionAt = filterBlockBytes * 8 * block
  return (filterPartitions(shape.k) ?? []).map((bits) => {
    const bit = partitionAt + (hash.folded % bits)
    partitionAt += bits
    return bit
  })
}

/** A blocked bloom filter over DIDs: `has` is never false for a DID that was added. */
export class DidFilter {
  readonly shape: FilterShape
  /** How many keys were added, as stored; informative only. */
  readonly count: number
  readonly #bits: Uint8Array

  private constructor(shape: FilterShape, count: number, bits: Uint8Array) {
    this.shape = shape
    this.count = count
    this.#bits = bits
  }

  /** Reads a serialized filter that fills `bytes`. Throws SegmentError `bad-filter`. */
  static decode(bytes: Uint8Array): DidFilter {
    const refuse = (why: string): SegmentError => new SegmentError('bad-filter', `DID filter ${why}`)
    if (bytes.length < bitsAt + crcBytes) throw refuse('is too short')
    const view = viewOf(bytes)
    const shape = { k: view.getUint32(1, true), numBlocks: readU64(view, 5, 'bad-filter') }
    if (view.getUint8(0) !== 1) throw refuse(`has the unknown version ${view.getUint8(0)}`)
    if (!filterPartitions(shape.k)) throw refuse(`sets ${shape.k} bits per key`)
    if (shape.numBlocks < 1 || shape.numBlocks > segmentLimits.filterBlocks)
      throw refuse(`has ${shape.numBlocks} blocks`)
    if (bytes.length !== filterBytes(shape)) throw refuse('does not have the length that its shape needs')
    const crcAt = bytes.length - crcBytes
    if (crc32c(bytes.subarray(0, crcAt)) !== view.getUint32(crcAt, true)) throw refuse('fails its CRC-32C')
    return new DidFilter(shape, readU64(view, 13, 'bad-filter'), bytes.subarray(bitsAt, crcAt))
  }

  /** False only when the DID was certainly not added. */
  has(hash: DidHash): boolean {
    const bits = this.#bits
    return filterBits(hash, this.shape).every((bit) => ((bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0)
  }
}

/** Serializes a filter that holds these keys. */
export function encodeFilter(shape: FilterShape, keys: Iterable<DidHash>): Uint8Array {
  const bytes = new Uint8Array(filterBytes(shape))
  const view = viewOf(bytes)
  let count = 0
  for (const key of keys) {
    count++
    for (const bit of filterBits(key, shape)) {
      const at = bitsAt + (bit >> 3)
      bytes[at] = (bytes[at] ?? 0) | (1 << (bit & 7))
    }
  }
  view.setUint8(0, 1)
  view.setUint32(1, shape.k, true)
  write64(view, 5, shape.numBlocks)
  write64(view, 13, count)
  const crcAt = bytes.length - crcBytes
  view.setUint32(crcAt, crc32c(bytes.subarray(0, crcAt)), true)
  return bytes
}
