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

/**
 * Every block of a file that can be read and has rows, in order, whatever lengths, header and footer say. What is no
 * block, or goes back in seq, is passed over.
 */
export function* scanBlocks(file: Buffer): Generator<FoundBlock> {
  let lastSeq = 0
  for (let start = file.indexOf(zstdMagic, headerBytes), next = 0; start !== -1;) {
    const end = frameEnd(file, start)
    const frame = file.subarray(start, end ?? start)
    const block = end === undefined ? undefined : readable(frame)
    const isNext = block !== undefined && block.count > 0 && block.seqAt(0) > lastSeq
    if (isNext) {
      yield { frame, start, block }
      lastSeq = block.seqAt(block.count - 1)
    }
    next = isNext && end !== undefined ? end : start + 1
    start = file.indexOf(zstdMagic, next)
  }
}

function readable(frame: Uint8Array): BlockView | undefined {
  try {
    return decodeFrame(frame, nodeDecompress)
  } catch (error) {
    if (error instanceof SegmentError) return undefined
    throw error
  }
}
