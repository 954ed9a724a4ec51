/**
 * One node of the tree of records, out of its bytes; `mst-write.ts` is the way back. Reading refuses every other way to
 * write the same node, so that equal parts always have equal bytes and an unchanged node keeps its digest.
 * Digests are not copied out of the bytes that they came in: a number stands for the position of one.
 */
import { limits } from '@tributary/protocol'
import { sha256 } from './digest.ts'
import { refuse } from './refusal.ts'

/** A subtree: none (0), one that was not sent (position of its digest), or one that is known. */
export type Child = number | MstNode
export const none = 0

/** How a node differs from the bytes that were sent: not, in the digests of its children only, or in more. */
export type Change = 'none' | 'children' | 'whole'

export interface MstNode {
  /** Pairs of leading zero bits in the SHA-256 of every key in this node. */
  layer: number
  /** `<collection>/<rkey>`, ascending. */
  keys: string[]
  /** Position of the digest of each key's record. */
  values: number[]
  /** One more than keys: what lies before, between and after them. */
  children: Child[]
  change: Change
  /** Where the sent node lies, and where its parent links to it. Of no meaning once it is changed as a whole. */
  start: number
  end: number
  linkedAt: number
}

/**
 * A node has more keys than this once in 10^64 nodes, unless somebody seeks keys of one layer. The specification of
 * repositories asks for such a bound. It keeps the cost of every change to a node small.
 */
export const nodeKeysMax = 512

/** A key of this layer takes 2^64 tries to find, so no honest tree stands higher. Bounds what a tree may have above its keys. */
export const layerMax = 32

/** The layer that a key belongs to. */
export function keyLayer(key: string): number {
  const digest = sha256(key)
  let zeros = 0
  while (zeros < 32 && digest.charCodeAt(zeros) === 0) zeros++
  return zeros === 32 ? 128 : zeros * 4 + ((Math.clz32(digest.charCodeAt(zeros)) - 24) >> 1)
}

/** A node that was not sent. */
export function newNode(layer: number, keys: string[], values: number[], children: Child[]): MstNode {
  return { layer, keys, values, children, change: 'whole', start: 0, end: 0, linkedAt: 0 }
}

export function isEmpty(node: MstNode): boolean {
  return node.keys.length === 0 && node.children[0] === none
}

const field = { e: 0x65, k: 0x6b, l: 0x6c, p: 0x70, t: 0x74, v: 0x76 } as const
const textOfOne = 0x61
const nullByte = 0xf6
const linkBytes = 41
const keyScratch = Buffer.alloc(limits.mstKeyBytes)

/**
 * Reads a node that its parent links to at `linkedAt`. Its layer, and where its keys belong, are for the caller to check.
 * This is the hottest loop of a verification after hashing, hence in one piece. Positions may run past the end of a
 * node that is cut off, which ends in a mismatch there or at the check of the end.
 * @throws RefusedError `invalid-mst`.
 */
export function readNode(bytes: Buffer, start: number, end: number, linkedAt: number): MstNode {
  const keys: string[] = []
  const values: number[] = []
  const children: Child[] = [none]
  let at = expectField(bytes, expectByte(bytes, start, 0xa2), field.e)
  const count = argument(bytes, at, 0x80)
  if (count > nodeKeysMax) refuseWideNode()
  at += headBytes(count)
  let length = 0
  for (let i = 0; i < count; i++) {
    at = expectField(bytes, expectByte(bytes, at, 0xa4), field.k)
    const suffixLength = argument(bytes, at, 0x40)
    const suffix = at + headBytes(suffixLength)
    at = expectField(bytes, suffix + suffixLength, field.p)
    const prefixLength = argument(bytes, at, 0x00)
    at += headBytes(prefixLength)
    length = joinKey(bytes, suffix, suffixLength, prefixLength, length)
    keys.push(keyScratch.toString('latin1', 0, length))
    at = expectField(bytes, at, field.t)
    const isLeaf = bytes[at] === nullByte
    children.push(isLeaf ? none : expectLink(bytes, at, end))
    at = expectField(bytes, at + (isLeaf ? 1 : linkBytes), field.v)
    values.push(expectLink(bytes, at, end))
    at += linkBytes
  }
  at = expectField(bytes, at, field.l)
  if (bytes[at] !== nullByte) children[0] = expectLink(bytes, at, end)
  if (at + (children[0] === none ? 1 : linkBytes) !== end) malformed()
  return { layer: 0, keys, values, children, change: 'none', start, end, linkedAt }
}

/** @throws RefusedError always. */
export function refuseWideNode(): never {
  refuse('invalid-mst', `a node of the tree has more than ${nodeKeysMax} keys`)
}

function malformed(): never {
  refuse('invalid-mst', 'a node of the tree is not written as it must be')
}

function expectByte(bytes: Buffer, at: number, byte: number): number {
  return bytes[at] === byte ? at + 1 : malformed()
}

function expectField(bytes: Buffer, at: number, name: number): number {
  return bytes[at] === textOfOne && bytes[at + 1] === name ? at + 2 : malformed()
}

/** Where the digest of the link at a position stands. */
function expectLink(bytes: Buffer, at: number, end: number): number {
  if (at + linkBytes > end) malformed()
  const isLink =
    bytes.readUInt32BE(at) === 0xd82a5825 &&
    bytes.readUInt32BE(at + 4) === 0x00017112 &&
    bytes[at + 8] === 0x20
  return isLink ? at + 9 : malformed()
}

/** The argument of a head whose major type is in the upper bits of `type`. */
function argument(bytes: Buffer, at: number, type: number): number {
  const low = (bytes[at] ?? 0xff) - type
  if (low >= 0 && low < 24) return low
  const size = low === 24 ? 1 : low === 25 ? 2 : low === 26 ? 4 : malformed()
  const value = at + size < bytes.length ? bytes.readUIntBE(at + 1, size) : malformed()
  return headBytes(value) === 1 + size ? value : malformed()
}

/** How long the head with an argument is in its shortest form. */
function headBytes(value: number): number {
  return value < 24 ? 1 : value < 0x100 ? 2 : value < 0x10000 ? 3 : 5
}

/** Puts the next key into `keyScratch`, which holds the one before, and returns its length. */
function joinKey(
  bytes: Buffer,
  suffix: number,
  suffixLength: number,
  prefixLength: number,
  previousLength: number,
): number {
  const length = prefixLength + suffixLength
  if (prefixLength > previousLength || suffixLength === 0 || length > limits.mstKeyBytes) malformed()
  // The first byte that differs must be larger: then the prefix is the whole common one, and the keys ascend.
  if (prefixLength < previousLength && byteAt(bytes, suffix) <= byteAt(keyScratch, prefixLength)) malformed()
  let all = 0
  for (let i = 0; i < suffixLength; i++) all |= keyScratch[prefixLength + i] = byteAt(bytes, suffix + i)
  return all < 0x80 ? length : malformed()
}

function byteAt(bytes: Buffer, position: number): number {
  return bytes[position] as number // past the end it is undefined, which compares as false and counts as 0
}
