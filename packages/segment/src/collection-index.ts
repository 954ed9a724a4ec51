import { SegmentError } from './errors.ts'
import { viewOf } from './integers.ts'
import { segmentLimits } from './limits.ts'
import { type Decompress, unpackFrame } from './zstd-frame.ts'

const indexHeaderBytes = 16
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** One collection of a segment; its position in the index is its id. Marker names have a count of 0. */
export interface SegmentCollection {
  readonly name: string
  readonly count: number
}

/** Which collections a segment holds, and which of its blocks holds which (segment-format.md 8). */
export class CollectionIndex {
  readonly collections: readonly SegmentCollection[]
  readonly #masks: Uint8Array
  readonly #maskBytes: number

  constructor(collections: readonly SegmentCollection[], masks: Uint8Array) {
    this.collections = collections
    this.#masks = masks
    this.#maskBytes = Math.ceil(collections.length / 8)
  }

  /** Whether the block holds a row of, or marked with, the collection. */
  blockHas(blockIndex: number, collectionId: number): boolean {
    const byte = this.#masks[blockIndex * this.#maskBytes + (collectionId >> 3)] ?? 0
    return (byte & (1 << (collectionId & 7))) !== 0
  }

  /** The collections of some names, marked as a block marks its own. Undefined when none has such a name. */
  maskOf(isWanted: (name: string) => boolean): Uint8Array | undefined {
    const mask = new Uint8Array(this.#maskBytes)
    let hasAny = false
    for (let id = 0; id < this.collections.length; id++) {
      if (!isWanted(this.collections[id]?.name ?? '')) continue
      mask[id >> 3] = (mask[id >> 3] ?? 0) | (1 << (id & 7))
      hasAny = true
    }
    return hasAny ? mask : undefined
  }

  /** Whether the block holds a row of, or marked with, any collection of a mask. */
  blockHasAny(blockIndex: number, mask: Uint8Array): boolean {
    const start = blockIndex * this.#maskBytes
    for (let i = 0; i < mask.length; i++)
      if (((this.#masks[start + i] ?? 0) & (mask[i] ?? 0)) !== 0) return true
    return false
  }

  /** The ids of the collections in a block, ascending. */
  idsOfBlock(blockIndex: number): number[] {
    return this.collections.flatMap((_, id) => (this.blockHas(blockIndex, id) ? [id] : []))
  }
}

/** Compresses the body of a collection index into one zstd frame with a content checksum. */
export type PackFrame = (content: Uint8Array) => Uint8Array | Promise<Uint8Array>

/** Serializes the index; `idsByBlock` has one entry for each block. An empty body is stored as no bytes at all. */
export async function encodeCollectionIndex(
  collections: readonly SegmentCollection[],
  idsByBlock: readonly Iterable<number>[],
  packFrame: PackFrame,
): Promise<Uint8Array> {
  const maskBytes = Math.ceil(collections.length / 8)
  const names = collections.map(({ name }) => encoder.encode(name))
  const namesBytes = names.reduce((sum, name) => sum + 5 + name.length, 0)
  const body = new Uint8Array(namesBytes + maskBytes * idsByBlock.length)
  const bodyView = viewOf(body)
  let at = 0
  names.forEach((name, id) => {
    bodyView.setUint8(at, name.length)
    bodyView.setUint32(at + 1, collections[id]?.count ?? 0, true)
    body.set(name, at + 5)
    at += 5 + name.length
  })
  for (const ids of idsByBlock) {
    for (const id of ids) body[at + (id >> 3)] = (body[at + (id >> 3)] ?? 0) | (1 << (id & 7))
    at += maskBytes
  }
  const frame = body.length === 0 ? body : await packFrame(body)
  const bytes = new Uint8Array(indexHeaderBytes + frame.length)
  const view = viewOf(bytes)
  view.setUint32(0, collections.length, true)
  view.setUint32(4, idsByBlock.length, true)
  view.setUint32(8, maskBytes, true)
  view.setUint32(12, body.length, true)
  bytes.set(frame, indexHeaderBytes)
  return bytes
}

/**
 * Reads a collection index that fills `bytes`; its body may not exceed 256 MiB.
 * Throws SegmentError `bad-collection-index`, or `bad-frame` when the body does not decompress.
 */
export function decodeCollectionIndex(
  bytes: Uint8Array,
  blockCount: number,
  decompress: Decompress,
): CollectionIndex {
  if (bytes.length < indexHeaderBytes) throw refused('is too short')
  const view = viewOf(bytes)
  const collectionCount = view.getUint32(0, true)
  const maskBytes = view.getUint32(8, true)
  const bodyBytes = view.getUint32(12, true)
  if (collectionCount > segmentLimits.collections) throw refused(`claims ${collectionCount} collections`)
  if (view.getUint32(4, true) !== blockCount) throw refused('has another block count than the segment')
  if (maskBytes !== Math.ceil(collectionCount / 8)) throw refused('has masks of the wrong length')
  if (bodyBytes > segmentLimits.collectionIndexBytes) throw refused(`claims ${bodyBytes} bytes`)
  const frame = bytes.subarray(indexHeaderBytes)
  const body = frame.length === 0 ? frame : unpackFrame(frame, decompress, bodyBytes)
  if (body.length !== bodyBytes) throw refused('does not have the length that it announces')

  const { collections, end } = decodeNames(body, collectionCount)
  const masks = body.subarray(end)
  if (masks.length !== maskBytes * blockCount) throw refused('has masks of the wrong total length')
  // The bits past the last collection, in the last byte of each mask; none when the collections fill that byte.
  const unusedBits = collectionCount % 8 === 0 ? 0 : (0xff << (collectionCount % 8)) & 0xff
  for (let block = 1; block <= blockCount; block++) {
    if (((masks[block * maskBytes - 1] ?? 0) & unusedBits) !== 0) throw refused('marks an unknown collection')
  }
  return new CollectionIndex(collections, masks)
}

function decodeNames(
  body: Uint8Array,
  collectionCount: number,
): { collections: SegmentCollection[]; end: number } {
  const view = viewOf(body)
  const collections: SegmentCollection[] = []
  let at = 0
  for (let id = 0; id < collectionCount; id++) {
    if (at + 5 > body.length) throw refused('ends inside its names')
    const nameEnd = at + 5 + view.getUint8(at)
    if (nameEnd > body.length) throw refused('ends inside a name')
    let name: string
    try {
      name = decoder.decode(body.subarray(at + 5, nameEnd))
    } catch {
      throw refused('has a name that is not UTF-8')
    }
    collections.push({ name, count: view.getUint32(at + 1, true) })
    at = nameEnd
  }
  return { collections, end: at }
}

function refused(why: string): SegmentError {
  return new SegmentError('bad-collection-index', `collection index ${why}`)
}
