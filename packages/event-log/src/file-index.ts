import type { Block } from './block.ts'

/** Where to find a seq in a file, and what the file holds. */
export interface FileIndex {
  firstSeq: number
  lastSeq: number
  lastTimeMs: number
  bytes: number
  /** Sparse, ascending: the offset of a block and the first seq in it. */
  points: { seq: number; offset: number }[]
}

const pointEveryBytes = 256 * 1024

/** Of a file without blocks. */
export function emptyIndex(): FileIndex {
  return { firstSeq: 0, lastSeq: 0, lastTimeMs: 0, bytes: 0, points: [] }
}

/** Notes a block that follows what the index covers. `blockBytes` is its length in the file. */
export function addToIndex(index: FileIndex, block: Block, blockBytes: number): void {
  if (index.firstSeq === 0) index.firstSeq = block.firstSeq
  const last = index.points.at(-1)
  if (!last || index.bytes - last.offset >= pointEveryBytes)
    index.points.push({ seq: block.firstSeq, offset: index.bytes })
  index.lastSeq = block.lastSeq
  index.lastTimeMs = Math.max(index.lastTimeMs, block.timeMsAt(block.count - 1))
  index.bytes += blockBytes
}
