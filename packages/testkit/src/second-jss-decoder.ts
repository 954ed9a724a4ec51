/**
 * A second reader of segment files, written from the specification of the format alone. It shares nothing with
 * `@tributary/segment`, reads one file as a whole and slowly, and demands of it all that section 11 demands, beside what
 * its rows say of counts, names, masks, DIDs and envelopes.
 */
import assert from 'node:assert/strict'
import { zstdDecompressSync } from 'node:zlib'
import { xxhash128, xxhash3 } from 'hash-wasm'

interface DecodedFilter {
  k: number
  numBlocks: number
  count: number
}

export interface DecodedRow {
  seq: number
  witnessedAt: number
  indexedAt: number
  kind: number
  did: string
  collection: string
  rkey: string
  rev: string
  payloadHex: string
}

interface DecodedBlock {
  offset: number
  compressedSize: number
  uncompressedSize: number
  eventCount: number
  minSeq: number
  maxSeq: number
  minWitnessedAt: number
  maxWitnessedAt: number
  collectionIds: number[]
  events: DecodedRow[]
}

/** Section 7.2: the sizes of the partitions of 512 bits, from k = 3 on. */
const partitions = [
  [167, 173, 172],
  [109, 127, 137, 139],
  [97, 101, 103, 109, 102],
  [61, 79, 83, 89, 97, 103],
  [61, 67, 71, 79, 83, 89, 62],
  [37, 47, 53, 61, 67, 71, 79, 97],
  [41, 43, 47, 53, 59, 67, 71, 73, 58],
  [31, 37, 41, 43, 47, 53, 59, 61, 67, 73],
  [29, 31, 37, 41, 43, 44, 47, 53, 59, 61, 67],
  [17, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 71],
  [17, 19, 23, 29, 31, 37, 41, 43, 47, 52, 53, 59, 61],
  [11, 13, 17, 19, 23, 29, 31, 37, 41, 47, 53, 59, 61, 71],
  [11, 13, 17, 19, 23, 28, 29, 31, 37, 41, 43, 47, 53, 59, 61],
  [5, 7, 11, 13, 17, 19, 23, 27, 29, 31, 37, 41, 43, 47, 53, 109],
  [3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 32, 37, 41, 43, 47, 53, 101],
]
const markers: Record<number, string> = { 4: '$identity', 5: '$account', 6: '$sync' }

/** Reads fields one after the other. */
class Cursor {
  readonly bytes: Buffer
  at: number

  constructor(bytes: Uint8Array, at = 0) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.at = at
  }

  /** An unsigned number of 1, 2, 4 or 8 bytes. */
  number(size: number): number {
    const value = size === 8 ? this.bytes.readBigUInt64LE(this.at) : this.bytes.readUIntLE(this.at, size)
    this.at += size
    assert.ok(value <= Number.MAX_SAFE_INTEGER, 'a number is too large')
    return Number(value)
  }

  numbers(size: number, count: number): number[] {
    return Array.from({ length: count }, () => this.number(size))
  }

  /** Signed numbers of 8 bytes. */
  times(count: number): number[] {
    return Array.from({ length: count }, () => {
      const value = this.bytes.readBigInt64LE(this.at)
      this.at += 8
      return Number(value)
    })
  }

  take(length: number): Buffer {
    assert.ok(this.at + length <= this.bytes.length, 'bytes are missing')
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }

  end(): void {
    assert.equal(this.at, this.bytes.length, 'there are bytes after the end')
  }
}

/** Section 4.1. */
function decodeBody(body: Uint8Array): DecodedRow[] {
  const cursor = new Cursor(body)
  const n = cursor.number(4)
  assert.ok(n <= 262_144)
  const [seqs, witnessed, indexed] = [cursor.numbers(8, n), cursor.times(n), cursor.times(n)]
  const kinds = cursor.numbers(1, n)
  const [collections, dids, rkeys] = [cursor.numbers(1, n), cursor.numbers(2, n), cursor.numbers(1, n)]
  const [revs, payloads] = [cursor.numbers(1, n), cursor.numbers(4, n)]
  const texts = (lengths: number[]): string[] => lengths.map((length) => cursor.take(length).toString())
  const columns = [collections, dids, rkeys, revs].map(texts)
  const bodies = payloads.map((length) => cursor.take(length).toString('hex'))
  cursor.end()
  return kinds.map((kind, i) => {
    assert.ok(kind >= 1 && kind <= 7)
    const [collection = '', did = '', rkey = '', rev = ''] = columns.map((column) => column[i])
    const times = { seq: seqs[i] ?? 0, witnessedAt: witnessed[i] ?? 0, indexedAt: indexed[i] ?? 0 }
    return { ...times, kind, did, collection, rkey, rev, payloadHex: bodies[i] ?? '' }
  })
}

/** The rows of a block, as it is downloaded alone. */
export function decodeBlockWithSecondDecoder(frame: Uint8Array): DecodedRow[] {
  return decodeBody(zstdDecompressSync(frame))
}

/** Section 7.1, with a test of 7.2. */
function decodeFilter(bytes: Buffer): { shape: DecodedFilter; has: (did: string) => Promise<boolean> } {
  const cursor = new Cursor(bytes)
  assert.equal(cursor.number(1), 1)
  const [k, numBlocks, count] = [cursor.number(4), cursor.number(8), cursor.number(8)]
  const bits = cursor.take(64 * numBlocks)
  assert.equal(cursor.number(4), crc32c(bytes.subarray(0, -4)), 'the checksum of a filter is wrong')
  cursor.end()
  const has = async (did: string): Promise<boolean> => {
    const hash = BigInt(`0x${await xxhash128(did)}`)
    const [hi, lo] = [hash >> 64n, hash & 0xffff_ffff_ffff_ffffn]
    const block = Number((hi * BigInt(numBlocks)) >> 64n)
    const x = Number((lo >> 32n) ^ (lo & 0xffff_ffffn))
    let start = 0
    return (partitions[k - 3] ?? []).every((size) => {
      const bit = 512 * block + start + (x % size)
      start += size
      return ((bits[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0
    })
  }
  return { shape: { k, numBlocks, count }, has }
}

function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f6_3b78 : 0)
  }
  return (crc ^ 0xffff_ffff) >>> 0
}

/** What a sealed segment holds, in the form of the expected files of the test vectors. @throws Error when it breaks a rule. */
export async function decodeWithSecondDecoder(file: Uint8Array) {
  const cursor = new Cursor(file)
  assert.equal(cursor.take(4).toString(), 'jss0')
  const checksum = Buffer.from(cursor.take(8).toReversed()).toString('hex')
  const [version, blockCount] = [cursor.number(2), cursor.number(4)]
  const [eventCount, uniqueDidCount] = [cursor.number(4), cursor.number(4)]
  const [minSeq, maxSeq] = [cursor.number(8), cursor.number(8)]
  const [minWitnessedAt, maxWitnessedAt] = cursor.times(2)
  const [footerOffset = 0, didBloomOffset = 0, blockDidBloomOffset = 0] = cursor.numbers(8, 3)
  const [collectionIndexOffset, blockIndexOffset] = [cursor.number(8), cursor.number(8)]
  assert.ok(cursor.take(158).every((byte) => byte === 0))
  assert.equal(version, 1)
  assert.equal(blockIndexOffset, footerOffset)
  const checked = Buffer.concat([file.subarray(12, 256), file.subarray(footerOffset)])
  assert.equal(await xxhash3(checked), checksum, 'the checksum of the file is wrong')

  const segmentFilter = decodeFilter(
    new Cursor(file, didBloomOffset).take(blockDidBloomOffset - didBloomOffset),
  )
  const region = new Cursor(file.subarray(0, collectionIndexOffset), blockDidBloomOffset)
  assert.equal(region.number(4), blockCount)
  const perBlockBloomSize = region.number(4)
  const filters = Array.from({ length: blockCount }, () => decodeFilter(region.take(perBlockBloomSize)))
  region.end()
  const { names, counts, masks } = decodeCollections(new Cursor(file, collectionIndexOffset), blockCount)

  const index = new Cursor(file.subarray(0, didBloomOffset), blockIndexOffset)
  const blocks: DecodedBlock[] = []
  let at = 256
  for (let i = 0; i < blockCount; i++) {
    const [offset, compressedSize, uncompressedSize] = [index.number(8), index.number(4), index.number(4)]
    const [events, first, last] = [index.number(4), index.number(8), index.number(8)]
    const [oldest = 0, newest = 0] = index.times(2)
    const frame = new Cursor(file.subarray(0, footerOffset), offset)
    assert.deepEqual([offset, frame.number(8)], [at, compressedSize])
    const body = zstdDecompressSync(frame.take(compressedSize))
    at = frame.at
    assert.equal(body.length, uncompressedSize)
    const rows = decodeBody(body)
    assert.equal(rows.length, events)
    const envelope = { minSeq: first, maxSeq: last, minWitnessedAt: oldest, maxWitnessedAt: newest }
    for (const { seq, witnessedAt } of rows)
      assert.ok(seq >= first && seq <= last && witnessedAt >= oldest && witnessedAt <= newest)
    blocks.push({
      offset,
      compressedSize,
      uncompressedSize,
      eventCount: events,
      ...envelope,
      collectionIds: masks[i] ?? [],
      events: rows,
    })
  }
  index.end()
  assert.equal(at, footerOffset)

  const rows = blocks.flatMap(({ events }) => events)
  // Empty DIDs are not counted, and are in no filter.
  const dids = new Set(rows.flatMap(({ did }) => did || []))
  assert.deepEqual([rows.length, dids.size], [eventCount, uniqueDidCount])
  assert.ok(rows.every(({ seq }, i) => seq > (rows[i - 1]?.seq ?? 0)))
  assert.deepEqual(namesOf(rows), names)
  for (const [i, { events, collectionIds }] of blocks.entries()) {
    const there = namesOf(events).map((name) => names.indexOf(name))
    assert.deepEqual(
      there.toSorted((a, b) => a - b),
      collectionIds,
    )
    for (const { did } of events)
      if (did)
        assert.ok((await segmentFilter.has(did)) && (await filters[i]?.has(did)), `${did} is not found`)
  }
  const ofName = (name: string): number => rows.filter(({ collection }) => collection === name).length
  assert.deepEqual(names.map(ofName), counts)

  return {
    checksum,
    version,
    blockCount,
    eventCount,
    uniqueDidCount,
    minSeq,
    maxSeq,
    minWitnessedAt,
    maxWitnessedAt,
    footerOffset,
    blockIndexOffset,
    didBloomOffset,
    blockDidBloomOffset,
    collectionIndexOffset,
    segmentBloom: segmentFilter.shape,
    perBlockBloomSize,
    perBlockBlooms: filters.map(({ shape }) => shape),
    collections: names.map((name, id) => ({ id, name, count: counts[id] })),
    blocks,
  }
}

/** Section 8: names and markers in the order in which they are first seen. */
function namesOf(rows: readonly DecodedRow[]): string[] {
  const names = new Set<string>()
  for (const { kind, collection } of rows)
    for (const name of [collection, markers[kind]]) if (name) names.add(name)
  return [...names]
}

function decodeCollections(
  cursor: Cursor,
  blockCount: number,
): { names: string[]; counts: number[]; masks: number[][] } {
  const [count, blocks, maskLength, bodyLength] = [4, 4, 4, 4].map((size) => cursor.number(size))
  assert.deepEqual([blocks, maskLength], [blockCount, Math.ceil((count ?? 0) / 8)])
  const frame = cursor.bytes.subarray(cursor.at)
  const body = new Cursor(frame.length === 0 ? frame : zstdDecompressSync(frame))
  assert.equal(body.bytes.length, bodyLength)
  const [names, counts]: [string[], number[]] = [[], []]
  for (let id = 0; id < (count ?? 0); id++) {
    const length = body.number(1)
    counts.push(body.number(4))
    names.push(body.take(length).toString())
  }
  const masks = Array.from({ length: blockCount }, () => {
    const mask = body.take(maskLength ?? 0)
    const ids = Array.from({ length: mask.length * 8 }, (_, id) => id)
    return ids.filter((id) => ((mask[id >> 3] ?? 0) & (1 << (id & 7))) !== 0)
  })
  body.end()
  assert.ok(masks.flat().every((id) => id < names.length))
  return { names, counts, masks }
}
