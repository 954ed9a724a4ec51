import { crc32c } from './crc32c.ts'
import { SegmentError } from './errors.ts'
import { filterPartitions, type FilterShape } from './filter-sizing.ts'
import { xxh128Bytes } from './hash.ts'
import { readU64, viewOf, write64 } from './integers.ts'
import { segmentLimits } from './limits.ts'

const bitsAt = 21
const crcBytes = 4
const filterBlockBytes = 64
/** Block count and filter size before the filters of all blocks. */
const regionHeaderBytes = 8
/** How many block filters are built without a pause: some milliseconds of work. */
const blocksAtOnce = 8
/** Keys that are set in one turn of the event loop: some milliseconds. */
const keysAtOnce = 50_000

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

/** The bit numbers that a key sets: one in each partition of the block that it falls into. */
export function filterBits(hash: DidHash, shape: FilterShape): number[] {
  const blockAt = filterBlockBytes * 8 * blockOf(hash.high, hash.low, shape.numBlocks)
  return bitsInBlock(hash, shape.k).map((bit) => blockAt + bit)
}

/** The same within that block, which depends on no more than k. */
function bitsInBlock({ folded }: DidHash, k: number): number[] {
  let partitionAt = 0
  return partitionsOf(k).map((partitionBits) => {
    const bit = partitionAt + (folded % partitionBits)
    partitionAt += partitionBits
    return bit
  })
}

/** Hashes of many DIDs, which a filter is asked for in one loop: plans ask ten thousand filters for a thousand each. */
export class DidHashes {
  readonly high: Float64Array
  readonly low: Float64Array
  readonly #hashes: readonly DidHash[]
  readonly #bits = new Map<number, DidBits>()

  constructor(hashes: readonly DidHash[]) {
    this.#hashes = hashes
    this.high = Float64Array.from(hashes, ({ high }) => high)
    this.low = Float64Array.from(hashes, ({ low }) => low)
  }

  /** Their places, all of them. */
  places(): number[] {
    return [...this.#hashes.keys()]
  }

  /** The k bits of each hash within its block. */
  bits(k: number): DidBits {
    let bits = this.#bits.get(k)
    if (!bits) {
      const each = this.#hashes.map((hash) => bitsInBlock(hash, k))
      const firstThree = Int32Array.from(each, ([a = 0, b = 0, c = 0]) => a | (b << 9) | (c << 18))
      this.#bits.set(k, (bits = { firstThree, all: Uint16Array.from(each.flat()) }))
    }
    return bits
  }
}

/** Bit numbers of many hashes within a block, all below 512. */
interface DidBits {
  /** The first three of each hash, nine bits a number, the first one lowest. */
  readonly firstThree: Int32Array
  /** All k of each hash, one hash after the other. */
  readonly all: Uint16Array
}

/**
 * The block that a key falls into. Products stay below 2^53 because numBlocks is at most 2^21. Both quotients are below
 * 2^21, so that `| 0` rounds them down, and does so faster than `Math.floor`.
 */
function blockOf(high: number, low: number, numBlocks: number): number {
  return ((high * numBlocks + ((low * numBlocks * 2 ** -32) | 0)) * 2 ** -32) | 0
}

function partitionsOf(k: number): readonly number[] {
  const partitions = filterPartitions(k)
  if (!partitions) throw refused(`sets ${k} bits per key`)
  return partitions
}

function refused(why: string): SegmentError {
  return new SegmentError('bad-filter', `DID filter ${why}`)
}

function damaged(): SegmentError {
  return refused('fails its CRC-32C')
}

/** A blocked bloom filter over DIDs: `has` is never false for a DID that was added. */
export class DidFilter {
  readonly shape: FilterShape
  /** How many keys were added, as stored; informative only. */
  readonly count: number
  readonly #bytes: Uint8Array
  readonly #bitsAt: number
  /** Undefined: its CRC was not looked at yet. */
  #isIntact: boolean | undefined

  private constructor(shape: FilterShape, count: number, bytes: Uint8Array, start: number) {
    this.shape = shape
    this.count = count
    this.#bytes = bytes
    this.#bitsAt = start + bitsAt
  }

  /** Reads a serialized filter that fills `bytes`, or reaches from `start` to `end`. Throws SegmentError `bad-filter`. */
  static decode(bytes: Uint8Array, start = 0, end: number = bytes.length): DidFilter {
    const filter = DidFilter.decodeUnchecked(viewOf(bytes), bytes, start, end)
    if (!filter.isIntact) throw damaged()
    return filter
  }

  /** The same without its CRC. @param view of the same bytes, because making one takes as long as the rest. */
  static decodeUnchecked(view: DataView, bytes: Uint8Array, start: number, end: number): DidFilter {
    if (end - start < bitsAt + crcBytes) throw refused('is too short')
    const version = view.getUint8(start)
    const shape = { k: view.getUint32(start + 1, true), numBlocks: readU64(view, start + 5, 'bad-filter') }
    if (version !== 1) throw refused(`has the unknown version ${version}`)
    if (shape.numBlocks < 1 || shape.numBlocks > segmentLimits.filterBlocks) {
      throw refused(`has ${shape.numBlocks} blocks`)
    }
    if (end - start !== filterBytes(shape)) throw refused('does not have the length that its shape needs')
    partitionsOf(shape.k)
    return new DidFilter(shape, readU64(view, start + 13, 'bad-filter'), bytes, start)
  }

  /** Whether the bytes are those that were written. */
  get isIntact(): boolean {
    if (this.#isIntact === undefined) {
      const crcAt = this.#bitsAt + filterBlockBytes * this.shape.numBlocks
      const stored = viewOf(this.#bytes).getUint32(crcAt, true)
      this.#isIntact = crc32c(this.#bytes, this.#bitsAt - bitsAt, crcAt) === stored
    }
    return this.#isIntact
  }

  /** False only when the DID was certainly not added. */
  has(hash: DidHash): boolean {
    const { k, numBlocks } = this.shape
    let partitionAt = filterBlockBytes * 8 * blockOf(hash.high, hash.low, numBlocks)
    // Both are unsigned already. Saying so lets the engine take the remainder of integers instead of doubles.
    const folded = hash.folded >>> 0
    for (const partitionBits of partitionsOf(k)) {
      if (this.#bit(partitionAt + (folded % (partitionBits >>> 0))) === 0) return false
      partitionAt += partitionBits
    }
    return true
  }

  /** Which of these DIDs may have been added. @param among their places in `hashes`. */
  select(hashes: DidHashes, among: readonly number[]): number[] {
    const selected: number[] = []
    for (let next = this.#firstOf(hashes, among, 0); ; next = this.#firstOf(hashes, among, next + 1)) {
      const place = among[next]
      if (place === undefined) return selected
      selected.push(place)
    }
  }

  /** Whether any of these DIDs may have been added. @param among their places in `hashes`. */
  hasAny(hashes: DidHashes, among: readonly number[]): boolean {
    return this.#firstOf(hashes, among, 0) < among.length
  }

  /** Where in `among`, from there on, the first DID stands that may have been added; its length when there is none. */
  #firstOf(hashes: DidHashes, among: readonly number[], from: number): number {
    const { k, numBlocks } = this.shape
    const { high, low } = hashes
    const { firstThree, all } = hashes.bits(k)
    const bytes = this.#bytes
    const bitsAt = this.#bitsAt
    // The high half alone tells the block, unless its product is so near below a whole number that the low half may carry.
    const scale = numBlocks * 2 ** -32
    const carryFrom = 1 - scale
    search: for (let next = from; next < among.length; next++) {
      const place = among[next] ?? 0
      const product = (high[place] ?? 0) * scale
      let block = product | 0
      if (product - block >= carryFrom) block = blockOf(high[place] ?? 0, low[place] ?? 0, numBlocks)
      const at = bitsAt + filterBlockBytes * block
      // Every k is three or more. One branch for three bits, because each alone is set as often as not, and a branch that
      // cannot be foreseen takes longer than to look at a bit.
      const bits = firstThree[place] ?? 0
      const three =
        ((bytes[at + ((bits >> 3) & 63)] ?? 0) >> (bits & 7)) &
        ((bytes[at + ((bits >> 12) & 63)] ?? 0) >> ((bits >> 9) & 7)) &
        ((bytes[at + ((bits >> 21) & 63)] ?? 0) >> ((bits >> 18) & 7))
      if ((three & 1) === 0) continue
      for (let i = place * k + 3; i < (place + 1) * k; i++) {
        const bit = all[i] ?? 0
        if ((((bytes[at + (bit >> 3)] ?? 0) >> (bit & 7)) & 1) === 0) continue search
      }
      return next
    }
    return among.length
  }

  #bit(at: number): number {
    return ((this.#bytes[this.#bitsAt + (at >> 3)] ?? 0) >> (at & 7)) & 1
  }
}

/**
 * The filters of a segment's blocks, all of one size (segment-format.md 6.2). The region is checked at once, each
 * filter only when it is asked for, and its CRC only when that matters for the answer.
 */
export class BlockDidFilters {
  /** Bytes of each serialized filter. */
  readonly filterBytes: number
  readonly #filters: Uint8Array
  readonly #view: DataView
  readonly #decoded: (DidFilter | undefined)[] = []

  private constructor(bytesEach: number, filters: Uint8Array) {
    this.filterBytes = bytesEach
    this.#filters = filters
    this.#view = viewOf(filters)
  }

  /** Reads the region that fills `bytes`. Throws SegmentError `bad-filter`. */
  static decode(bytes: Uint8Array, blockCount: number): BlockDidFilters {
    if (bytes.length < regionHeaderBytes) throw refused('region is too short')
    const view = viewOf(bytes)
    const bytesEach = view.getUint32(4, true)
    if (view.getUint32(0, true) !== blockCount) {
      throw refused('region has another block count than the segment')
    }
    if (bytes.length !== regionHeaderBytes + blockCount * bytesEach)
      throw refused('region has the wrong length')
    return new BlockDidFilters(bytesEach, bytes.subarray(regionHeaderBytes))
  }

  /** The filter of one block. Throws SegmentError `bad-filter`. */
  at(blockIndex: number): DidFilter {
    const filter = this.#unchecked(blockIndex)
    if (!filter.isIntact) throw damaged()
    return filter
  }

  /**
   * Whether a block may hold rows of any of these DIDs. A damaged filter says so of every DID. So one that says it needs
   * no check, and one that denies it does. @param among their places in `hashes`.
   */
  mayHaveAny(blockIndex: number, hashes: DidHashes, among: readonly number[]): boolean {
    try {
      const filter = this.#unchecked(blockIndex)
      return filter.hasAny(hashes, among) || !filter.isIntact
    } catch (error) {
      if (error instanceof SegmentError && error.problem === 'bad-filter') return true
      throw error
    }
  }

  #unchecked(blockIndex: number): DidFilter {
    return (this.#decoded[blockIndex] ??= this.#decode(blockIndex))
  }

  #decode(blockIndex: number): DidFilter {
    const start = blockIndex * this.filterBytes
    if (start + this.filterBytes > this.#filters.length) throw refused('of a block that is not there')
    return DidFilter.decodeUnchecked(this.#view, this.#filters, start, start + this.filterBytes)
  }
}

/**
 * Serializes the filters of all blocks, each a list of the keys in that block. Lets other work through every few
 * blocks: a large segment has a million keys to set.
 */
export async function encodeBlockFilters(
  shape: FilterShape,
  keysByBlock: readonly Iterable<DidHash>[],
): Promise<Uint8Array> {
  const bytesEach = keysByBlock.length === 0 ? 0 : filterBytes(shape)
  const bytes = new Uint8Array(regionHeaderBytes + keysByBlock.length * bytesEach)
  const view = viewOf(bytes)
  view.setUint32(0, keysByBlock.length, true)
  view.setUint32(4, bytesEach, true)
  for (const [i, keys] of keysByBlock.entries()) {
    if (i % blocksAtOnce === blocksAtOnce - 1) await new Promise((resolve) => setTimeout(resolve))
    bytes.set(await encodeFilter(shape, keys), regionHeaderBytes + i * bytesEach)
  }
  return bytes
}

/** Serializes a filter that holds these keys. Lets other work through now and then, as above. */
export async function encodeFilter(shape: FilterShape, keys: Iterable<DidHash>): Promise<Uint8Array> {
  const partitions = partitionsOf(shape.k)
  const bytes = new Uint8Array(filterBytes(shape))
  const bits = bytes.subarray(bitsAt)
  let count = 0
  for (const key of keys) {
    if (++count % keysAtOnce === 0) await new Promise((resolve) => setTimeout(resolve))
    let partitionAt = filterBlockBytes * 8 * blockOf(key.high, key.low, shape.numBlocks)
    for (const partitionBits of partitions) {
      const bit = partitionAt + (key.folded % partitionBits)
      bits[bit >> 3] = (bits[bit >> 3] ?? 0) | (1 << (bit & 7))
      partitionAt += partitionBits
    }
  }
  const view = viewOf(bytes)
  view.setUint8(0, 1)
  view.setUint32(1, shape.k, true)
  write64(view, 5, shape.numBlocks)
  write64(view, 13, count)
  const crcAt = bytes.length - crcBytes
  view.setUint32(crcAt, crc32c(bytes, 0, crcAt), true)
  return bytes
}
