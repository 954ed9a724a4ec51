/**
 * Walks a log file piece by piece with every checksum looked at, past any damage: for the tools that work on a log
 * while nothing else does.
 */
import { readFileSync } from 'node:fs'
import {
  arePayloadsIntact,
  Block,
  isTableIntact,
  mayBeOwn,
  readBlockHeader,
  type BlockSearch,
  type Crc,
} from './block.ts'

/** One block that is whole, or a stretch of bytes that is none. */
export interface Piece {
  offset: number
  bytes: number
  /** Undefined when the bytes are no block. */
  block: Block | undefined
  /** Whether the block is as it was written; otherwise its table is, and some of its payloads are not. */
  isWhole: boolean
}

export interface WalkOptions {
  crc: Crc
  /** The last seq before the file: blocks that do not come after it are damage. */
  afterSeq: number
  search: BlockSearch
  /** Whether the log's writer may have left zeros behind the last block, which are no damage then. */
  isNewest: boolean
}

/** The blocks of a file and the stretches between them that are none, in order and without a gap. */
export function* walkFile(path: string, { crc, afterSeq, search, isNewest }: WalkOptions): Generator<Piece> {
  const bytes = readFileSync(path)
  const end = isNewest ? endOf(bytes) : bytes.length
  let lastSeq = afterSeq
  for (let offset = 0; offset < end;) {
    const block = blockAt(bytes, offset, crc, lastSeq)
    if (block) {
      lastSeq = block.lastSeq
      yield { offset, bytes: block.buffer.length, block, isWhole: arePayloadsIntact(block, crc) }
      offset += block.buffer.length
      continue
    }
    let next = bytes.indexOf('TLB1', offset + 1)
    while (next >= 0 && !isOwnBlockAt(bytes, next, crc, lastSeq, search))
      next = bytes.indexOf('TLB1', next + 1)
    const until = next < 0 ? end : next
    yield { offset, bytes: until - offset, block: undefined, isWhole: false }
    offset = until
  }
}

/** Where the zeros at the end begin. */
function endOf(bytes: Buffer): number {
  let end = bytes.length
  while (end > 0 && bytes[end - 1] === 0) end--
  return end
}

/** True for a block found by searching that is one of the log's, and not part of a payload that looks like one. */
function isOwnBlockAt(
  bytes: Buffer,
  offset: number,
  crc: Crc,
  afterSeq: number,
  search: BlockSearch,
): boolean {
  const header = readBlockHeader(bytes, offset)
  if (!header || !mayBeOwn(header, offset, search)) return false
  const block = blockAt(bytes, offset, crc, afterSeq)
  return block !== undefined && block.lastSeq < search.seqLimit
}

/** A block whose table is intact and whose records come after `afterSeq`. */
function blockAt(bytes: Buffer, offset: number, crc: Crc, afterSeq: number): Block | undefined {
  const header = readBlockHeader(bytes, offset)
  if (!header || header.count === 0 || offset + header.blockBytes > bytes.length) return undefined
  const buffer = bytes.subarray(offset, offset + header.blockBytes)
  if (!isTableIntact(buffer, header.tableEnd, crc)) return undefined
  const block = new Block(buffer)
  return block.firstSeq > afterSeq ? block : undefined
}
