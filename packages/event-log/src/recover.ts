/**
 * Reading a log file back after a stop of any kind.
 * Everything before the last synced mark must be whole, or the file is corrupt. Behind the mark nothing was
 * acknowledged, so the first block that is not whole ends the file, even when a later one happens to be.
 */
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readSync } from 'node:fs'
import {
  arePayloadsIntact,
  Block,
  headerBytes,
  isTableIntact,
  mayBeOwn,
  readBlockHeader,
  type BlockSearch,
  type Crc,
} from './block.ts'
import { LogCorruptError } from './errors.ts'

/** Where to find a seq in a file, and what the file holds. */
export interface FileIndex {
  firstSeq: number
  lastSeq: number
  lastTimeMs: number
  bytes: number
  /** Sparse, ascending: the offset of a block and the first seq in it. */
  points: { seq: number; offset: number }[]
}

/** Of a file without blocks. */
export function emptyIndex(): FileIndex {
  return { firstSeq: 0, lastSeq: 0, lastTimeMs: 0, bytes: 0, points: [] }
}

const pointEveryBytes = 256 * 1024
const blockBytesMax = 64 * 1024 * 1024

export interface RecoverOptions {
  crc: Crc
  /** How much of the file is known to be durable, beside what its own blocks say. */
  syncedBytes: number
  /** The last seq before the file. */
  afterSeq: number
  search: BlockSearch
}

/**
 * Scans a file whose writer may have been stopped at any moment, and cuts its torn tail.
 * @throws LogCorruptError for damage before the mark.
 */
export function recoverFile(path: string, options: RecoverOptions): FileIndex {
  const fd = openSync(path, 'r+')
  try {
    const size = fstatSync(fd).size
    const { index, syncedOffset } = scan(fd, size, options.crc)
    let mark = Math.max(syncedOffset, options.syncedBytes)
    if (index.bytes < size) {
      const afterSeq = Math.max(options.afterSeq, index.lastSeq)
      mark = Math.max(mark, laterMark(fd, index.bytes + 1, size, { ...options, afterSeq }))
    }
    if (index.bytes < mark)
      throw new LogCorruptError(path, index.bytes, 'a block before the synced mark is not whole')
    if (index.bytes < size) {
      ftruncateSync(fd, index.bytes)
      fsyncSync(fd)
    }
    return index
  } finally {
    closeSync(fd)
  }
}

/**
 * Indexes a finished file by its block headers and tables, without reading its payloads.
 * @throws LogCorruptError when one of them is not as it was written.
 */
export function indexFile(path: string, crc: Crc): FileIndex {
  const fd = openSync(path, 'r')
  try {
    const size = fstatSync(fd).size
    const { index } = scan(fd, size, crc, { tablesOnly: true })
    if (index.bytes !== size)
      throw new LogCorruptError(path, index.bytes, 'no whole block is where one should be')
    return index
  } finally {
    closeSync(fd)
  }
}

/** The secret of the block that a file begins with; undefined when its table is not as it was written. */
export function secretOfFile(path: string, crc: Crc): bigint | undefined {
  const fd = openSync(path, 'r')
  try {
    return readBlockAt(fd, 0, fstatSync(fd).size, crc, { tablesOnly: true })?.secret
  } finally {
    closeSync(fd)
  }
}

/** Walks whole blocks from the start, until one is not. */
function scan(
  fd: number,
  size: number,
  crc: Crc,
  how = { tablesOnly: false },
): { index: FileIndex; syncedOffset: number } {
  const index = emptyIndex()
  let syncedOffset = 0
  for (;;) {
    const block = readBlockAt(fd, index.bytes, size, crc, how)
    if (!block || block.firstSeq <= index.lastSeq) return { index, syncedOffset }
    addToIndex(index, block)
    syncedOffset = block.syncedOffset
    index.bytes += block.blockBytes
  }
}

/** Notes a block that stands at the end of what the index covers. The caller moves `bytes` on. */
export function addToIndex(
  index: FileIndex,
  block: { firstSeq: number; lastSeq: number; lastTimeMs: number },
): void {
  if (index.firstSeq === 0) index.firstSeq = block.firstSeq
  const last = index.points.at(-1)
  if (!last || index.bytes - last.offset >= pointEveryBytes)
    index.points.push({ seq: block.firstSeq, offset: index.bytes })
  index.lastSeq = block.lastSeq
  index.lastTimeMs = Math.max(index.lastTimeMs, block.lastTimeMs)
}

interface ScannedBlock {
  firstSeq: number
  lastSeq: number
  lastTimeMs: number
  blockBytes: number
  syncedOffset: number
  secret: bigint
}

function readBlockAt(
  fd: number,
  offset: number,
  size: number,
  crc: Crc,
  { tablesOnly }: { tablesOnly: boolean },
): ScannedBlock | undefined {
  const head = readBytes(fd, offset, headerBytes)
  const header = readBlockHeader(head, 0)
  if (!header || header.count === 0 || header.blockBytes > blockBytesMax || offset + header.blockBytes > size)
    return undefined
  const bytes = readBytes(fd, offset, tablesOnly ? header.tableEnd : header.blockBytes)
  if (!isTableIntact(bytes, header.tableEnd, crc)) return undefined
  const block = new Block(bytes)
  if (!tablesOnly && !arePayloadsIntact(block, crc)) return undefined
  return {
    firstSeq: block.firstSeq,
    lastSeq: block.lastSeq,
    lastTimeMs: block.timeMsAt(block.count - 1),
    blockBytes: header.blockBytes,
    syncedOffset: header.syncedOffset,
    secret: header.secret,
  }
}

/** The furthest synced mark that an intact block of the log behind a damaged place carries; 0 when there is none. */
function laterMark(
  fd: number,
  from: number,
  size: number,
  { crc, afterSeq, search }: RecoverOptions,
): number {
  const rest = readBytes(fd, from, size - from)
  let mark = 0
  for (let at = rest.indexOf('TLB1'); at >= 0; at = rest.indexOf('TLB1', at + 1)) {
    const header = readBlockHeader(rest, at)
    if (!header || !mayBeOwn(header, from + at, search)) continue
    const block = readBlockAt(fd, from + at, size, crc, { tablesOnly: false })
    if (block && block.firstSeq > afterSeq && block.lastSeq < search.seqLimit)
      mark = Math.max(mark, block.syncedOffset)
  }
  return mark
}

function readBytes(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  const got = readSync(fd, bytes, 0, length, offset)
  return bytes.subarray(0, got)
}
