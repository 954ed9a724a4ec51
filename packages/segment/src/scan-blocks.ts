import { framePrefixBytes } from './block-index.ts'
import { headerBytes } from './header.ts'
import { SegmentError } from './errors.ts'
import { type BlockView } from './block-view.ts'
import { nodeDecompress } from './node-zstd.ts'
import { decodeFrame } from './stored-block.ts'
import { frameEnd } from './zstd-frame.ts'

/** A block that was found by its own bytes. */
export interface FoundBlock {
  readonly frame: Uint8Array
  /** Where the frame begins in the file. */
  readonly start: number
  readonly block: BlockView
}

const zstdMagic = Buffer.of(0x28, 0xb5, 0x2f, 0xfd)
/** Where the header of a sealed file says that its footer begins; 0 in an active one. */
const footerOffsetAt = 58

/**
 * Every block of a file that can be read and has rows, in order, whatever header and footer say. What is no block, or goes
 * back in seq, is passed over.
 */
export function* scanBlocks(file: Buffer): Generator<FoundBlock> {
  let lastSeq = 0
  for (let start = headerBytes + framePrefixBytes; start >= 0 && start <= file.length;) {
    const end = frameEnd(file, start)
    const frame = file.subarray(start, end ?? start)
    const block = end === undefined ? undefined : readable(frame)
    if (block !== undefined && block.count > 0 && block.seqAt(0) > lastSeq) {
      yield { frame, start, block }
      lastSeq = block.seqAt(block.count - 1)
    }
    const next = block === undefined ? endOfDamaged(file, start) : end
    start = next === undefined ? file.indexOf(zstdMagic, start + 1) : next + framePrefixBytes
  }
}

/**
 * Where a damaged block ends, when the length before it leads to another block, to the footer or to the end of the file. What
 * it holds is not looked through then: a record may hold the bytes of a block, with rows in the name of anybody.
 */
function endOfDamaged(file: Buffer, start: number): number | undefined {
  const end = start + Number(file.readBigUInt64LE(start - framePrefixBytes))
  const next = end + framePrefixBytes
  const isBeforeBlock = file.subarray(next, next + zstdMagic.length).equals(zstdMagic)
  const isLast = end === file.length || end === Number(file.readBigUInt64LE(footerOffsetAt))
  return isBeforeBlock || isLast ? end : undefined
}

function readable(frame: Uint8Array): BlockView | undefined {
  try {
    return decodeFrame(frame, nodeDecompress)
  } catch (error) {
    if (error instanceof SegmentError) return undefined
    throw error
  }
}
