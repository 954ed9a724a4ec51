/**
 * Reads a CARv1 of repository blocks in place. Every block must be DAG-CBOR, named by its SHA-256, and hash to it, so
 * whatever is found through a digest later is what the digest stands for.
 */
import { CborReader } from './cbor-reader.ts'
import { cidPrefix, digestAt, isDigestAt, sha256, type Digest } from './digest.ts'
import { refuse } from './refusal.ts'

/** Where the data of a block lies in the bytes that it was read from. */
export interface Block {
  start: number
  end: number
}

export interface Car {
  bytes: Buffer
  /** The first root: the commit. */
  root: Digest
  blocks: Map<Digest, Block>
  /** Marks the low bits of every block's digest. Most links lead out of the CAR; this tells so without a look-up. */
  marks: Uint8Array
}

/** More roots than one are legal and mean nothing here; only the first is used. */
const rootsMax = 16
export const varintBytesMax = 4
export const cidBytes = 36
/** So many bytes lie in the array itself. More would be memory of its own, which garbage collection has to give back. */
const marksCount = 64
/** More than 200 operations need with all nodes around their keys, 13 layers deep. Hashing takes 2 µs a block. */
const commitBlocksMax = 10_000

/**
 * Reads the CAR in `bytes` from `start` up to `end`.
 * @param checked false takes the digests of blocks on trust, for sources that the operator trusts.
 * @param blocksMax default: what the CAR of a commit may have.
 * @throws RefusedError `malformed-car`, `oversize` or `bad-block-hash`.
 */
export function readCar(
  bytes: Buffer,
  start: number,
  end: number,
  checked = true,
  blocksMax: number = commitBlocksMax,
): Car {
  const header = readVarint(bytes, start, end)
  const headerEnd = header.next + header.value
  if (headerEnd > end) refuse('malformed-car', 'the CAR header ends too early')
  const root = readCarHeader(bytes, header.next, headerEnd)
  const blocks = new Map<Digest, Block>()
  const marks = new Uint8Array(marksCount)
  let at = headerEnd
  for (let count = 0; at < end; count++) {
    if (count === blocksMax) refuse('oversize', `the CAR has more than ${blocksMax} blocks`)
    const section = readVarint(bytes, at, end)
    const dataStart = section.next + cidBytes
    at = section.next + section.value
    if (section.value < cidBytes || at > end)
      refuse('malformed-car', 'a CAR section ends too early or is too short')
    if (!isRepositoryCid(bytes, section.next))
      refuse('malformed-car', 'a block is not DAG-CBOR named by SHA-256')
    const digest = checked ? sha256(bytes.subarray(dataStart, at)) : digestAt(bytes, dataStart - 32)
    if (checked && !isDigestAt(bytes, dataStart - 32, digest))
      refuse('bad-block-hash', 'a block does not hash to its CID')
    blocks.set(digest, { start: dataStart, end: at })
    marks[markAt(bytes, dataStart - 32)] = 1
  }
  return { bytes, root, blocks, marks }
}

/** The block whose digest stands at a position of the CAR's bytes, undefined if it was not sent. */
export function blockAt(car: Car, digestPosition: number): Block | undefined {
  if (car.marks[markAt(car.bytes, digestPosition)] === 0) return undefined
  return car.blocks.get(digestAt(car.bytes, digestPosition))
}

function markAt(bytes: Buffer, digestPosition: number): number {
  return bytes.readUInt16BE(digestPosition) % marksCount
}

/** Reads the header and returns its first root. @throws RefusedError `malformed-car`. */
export function readCarHeader(bytes: Buffer, start: number, end: number): Digest {
  const reader = new CborReader(bytes, start, end, 'malformed-car')
  let root: Digest | undefined
  let hasVersion = false
  if (reader.map() !== 2) reader.fail('the CAR header has other fields than roots and version')
  for (let left = 2; left > 0; left--) {
    const key = reader.text()
    if (key === 'roots' && root === undefined) root = readRoots(reader)
    else if (key === 'version' && !hasVersion)
      hasVersion = reader.unsigned() === 1 || reader.fail('the CAR version is not 1')
    else reader.fail('the CAR header has other fields than roots and version')
  }
  reader.finish()
  return root ?? reader.fail('the CAR has no root')
}

function readRoots(reader: CborReader): Digest {
  const count = reader.array()
  if (count < 1 || count > rootsMax) reader.fail(`the CAR has ${count} roots`)
  const first = reader.link()
  for (let left = count; left > 1; left--) reader.link()
  return digestAt(reader.bytes, first)
}

/** Whether a CID of DAG-CBOR and SHA-256 begins here. */
export function isRepositoryCid(bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at) === cidPrefix
}

/** An unsigned LEB128 in its shortest form. */
function readVarint(bytes: Buffer, start: number, end: number): { value: number; next: number } {
  let value = 0
  for (let i = 0; i < varintBytesMax && start + i < end; i++) {
    const byte = bytes[start + i] as number // start + i is below the end
    value += (byte & 0x7f) * 2 ** (7 * i)
    if (byte < 0x80) {
      if (byte === 0 && i > 0) break
      return { value, next: start + i + 1 }
    }
  }
  return refuse('malformed-car', 'a length in the CAR is cut off, too long, or not in its shortest form')
}
