/**
 * The one scanner of log files, for starts, copies and tools: gives what a file holds from its beginning to its end,
 * blocks that are whole and places that are damaged.
 * A block is the log's if it begins the file or follows another block. Behind a damaged place it has to be searched
 * for, and there bytes in a payload may look like a block: `BlockSearch` tells them apart.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import {
  arePayloadsIntact,
  Block,
  headerBytes,
  isTableIntact,
  mayBeOwn,
  readBlockHeader,
  type BlockHeader,
  type BlockSearch,
  type Crc,
} from './block.ts'

/** One block, or a stretch of bytes that is none. */
export interface Piece {
  offset: number
  bytes: number
  /** Undefined when the bytes are no block of the log. With `tablesOnly` it has no payloads. */
  block: Block | undefined
  /** How far the file was durable when the block was written, as the block says. */
  syncedOffset: number
  /** Undefined for a block that is as it was written. */
  damage: PieceDamage | undefined
}

/** The damage that no stop of the writer explains. */
export const overlaps = 'it overlaps what is before it'

export type PieceDamage = 'no whole block' | 'a payload fails its checksum' | typeof overlaps

export interface ScanOptions {
  crc: Crc
  /** The last seq before the file: the blocks of the file come after it. */
  afterSeq: number
  search: BlockSearch
  /** Whether the log's writer may have left zeros after the last block. They are no damage then. */
  isNewest: boolean
  /** Reads no payloads and checks none. */
  tablesOnly?: boolean
}

const blockBytesMax = 64 * 1024 * 1024
const chunkBytes = 1024 * 1024

/** The pieces of a file, in order and without a gap. Reads only as far as its caller asks. */
export function* scanFile(path: string, options: ScanOptions): Generator<Piece> {
  const fd = openSync(path, 'r')
  try {
    const { size } = fstatSync(fd)
    const end = options.isNewest ? endOfWritten(fd, size) : size
    let lastSeq = options.afterSeq
    for (let offset = 0; offset < end;) {
      const piece =
        blockAt(fd, offset, size, lastSeq, options) ?? damageAt(fd, offset, { size, end }, lastSeq, options)
      yield piece
      lastSeq = piece.block?.lastSeq ?? lastSeq
      offset += piece.bytes
    }
  } finally {
    closeSync(fd)
  }
}

/** The secret of the block that a file begins with; undefined when its table is not as it was written. */
export function secretOfFile(path: string, crc: Crc): bigint | undefined {
  const fd = openSync(path, 'r')
  try {
    return readBlockAt(fd, 0, fstatSync(fd).size, crc, { tablesOnly: true })?.header.secret
  } finally {
    closeSync(fd)
  }
}

/** Where the zeros at the end of a file begin. */
export function endOfWritten(fd: number, size: number): number {
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - chunkBytes)
    const last = readBytes(fd, start, end - start).findLastIndex((byte) => byte !== 0)
    if (last >= 0) return start + last + 1
    end = start
  }
  return 0
}

function blockAt(
  fd: number,
  offset: number,
  size: number,
  lastSeq: number,
  { crc, tablesOnly = false }: ScanOptions,
): Piece | undefined {
  const found = readBlockAt(fd, offset, size, crc, { tablesOnly })
  if (!found) return undefined
  const { block } = found
  const { blockBytes: bytes, syncedOffset } = found.header
  if (block.firstSeq <= lastSeq) return { offset, bytes, block: undefined, syncedOffset, damage: overlaps }
  const isWhole = tablesOnly || arePayloadsIntact(block, crc)
  return { offset, bytes, block, syncedOffset, damage: isWhole ? undefined : 'a payload fails its checksum' }
}

/** The bytes from a place where no block is up to the next block. */
function damageAt(
  fd: number,
  offset: number,
  { size, end }: { size: number; end: number },
  lastSeq: number,
  { crc, search }: ScanOptions,
): Piece {
  const next = candidates(fd, offset + 1, end, search).find((candidate) => {
    const block = readBlockAt(fd, candidate, size, crc, { tablesOnly: true })?.block
    return block !== undefined && block.firstSeq > lastSeq && block.lastSeq < search.seqLimit
  })
  const bytes = (next ?? end) - offset
  return { offset, bytes, block: undefined, syncedOffset: 0, damage: 'no whole block' }
}

/** Places where the header of a block of the log may be. No checksum was looked at yet. */
function* candidates(fd: number, from: number, end: number, search: BlockSearch): Generator<number> {
  for (let start = from; start < end; start += chunkBytes) {
    // A header may begin in one chunk and end in the next.
    const chunk = readBytes(fd, start, chunkBytes + headerBytes - 1)
    for (let at = chunk.indexOf('TLB1'); at >= 0 && at < chunkBytes; at = chunk.indexOf('TLB1', at + 1)) {
      const header = readBlockHeader(chunk, at)
      if (header && mayBeOwn(header, start + at, search)) yield start + at
    }
  }
}

/** A block that fits into the file; undefined when its header and table are not as they were written. */
function readBlockAt(
  fd: number,
  offset: number,
  size: number,
  crc: Crc,
  { tablesOnly }: { tablesOnly: boolean },
): { header: BlockHeader; block: Block } | undefined {
  const header = readBlockHeader(readBytes(fd, offset, headerBytes), 0)
  if (!header || header.count === 0 || header.blockBytes > blockBytesMax || offset + header.blockBytes > size)
    return undefined
  const bytes = readBytes(fd, offset, tablesOnly ? header.tableEnd : header.blockBytes)
  return isTableIntact(bytes, header.tableEnd, crc) ? { header, block: new Block(bytes) } : undefined
}

function readBytes(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  return bytes.subarray(0, readSync(fd, bytes, 0, length, offset))
}
