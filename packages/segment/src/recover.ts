import { type BlockEntry, describeBlock, encodeBlockIndex, framePrefixBytes } from './block-index.ts'
import { decodeBlock } from './block-view.ts'
import { SegmentError } from './errors.ts'
import { headerBytes, segmentState } from './header.ts'
import { viewOf } from './integers.ts'
import { unpackFrameAsync } from './node-zstd.ts'
import type { SegmentLease } from './segment-file.ts'
import { SegmentSummary } from './segment-summary.ts'

/**
 * Reads the blocks of an active file of `fileBytes` bytes (segment-format.md 9). The bytes after the
 * summary's end are a torn block, or the footer of a seal that did not get as far as its header. They were never durable.
 *
 * A frame that is all there and does not decode is damage, or a block that a power cut tore between sectors. Only the
 * caller can tell: the frame counts as torn if the blocks before it reach `lastSeqMin`.
 * @param lastSeqMin the newest row that is known to have been in a durable block. Undefined: nothing is known.
 * @throws SegmentError for damage; `missing-rows` when whole blocks end before `lastSeqMin`.
 */
export async function recoverSummary(
  file: SegmentLease,
  fileBytes: number,
  lastSeqMin: number | undefined,
): Promise<SegmentSummary> {
  if (segmentState(await file.read(0, Math.min(headerBytes, fileBytes))) === 'sealed') {
    throw new SegmentError('already-sealed', 'the segment is sealed')
  }
  const summary = new SegmentSummary()
  const lastSeq = (): number => summary.entries.at(-1)?.maxSeq ?? 0
  try {
    while (await addNextBlock(file, fileBytes, summary));
  } catch (error) {
    const isTorn = error instanceof SegmentError && lastSeqMin !== undefined && lastSeq() >= lastSeqMin
    if (!isTorn) throw error
  }
  checkReaches(lastSeq(), lastSeqMin)
  return summary
}

/** @throws SegmentError `missing-rows` when rows that were in durable blocks are not there any more. */
export function checkReaches(lastSeq: number, lastSeqMin = 0): void {
  if (lastSeq >= lastSeqMin) return
  throw new SegmentError(
    'missing-rows',
    `the blocks end at seq ${lastSeq}, and rows up to seq ${lastSeqMin} were in blocks before`,
  )
}

/** False when no further block is there whole. */
async function addNextBlock(
  file: SegmentLease,
  fileBytes: number,
  summary: SegmentSummary,
): Promise<boolean> {
  const offset = summary.end
  const bytesLeft = fileBytes - offset - framePrefixBytes
  if (bytesLeft < 0) return false
  const prefix = await file.read(offset, framePrefixBytes)
  const frameBytes = viewOf(prefix).getBigUint64(0, true)
  if (frameBytes > bytesLeft || (await isFooter(file, fileBytes, summary))) return false
  const frame = await file.read(offset + framePrefixBytes, Number(frameBytes))
  const block = decodeBlock(await unpackFrameAsync(frame))
  const entry = describeBlock(block, offset, frame.length)
  checkFollows(entry, summary.entries.at(-1))
  summary.addBlock(entry, block)
  return true
}

/** Whether the file goes on with the block index of the blocks so far, whole or cut short, as a seal writes it. */
async function isFooter(file: SegmentLease, fileBytes: number, summary: SegmentSummary): Promise<boolean> {
  const { entries, end } = summary
  const begins = async (blockIndex: Uint8Array): Promise<boolean> => {
    const stored = await file.read(end, Math.min(blockIndex.length, fileBytes - end))
    return stored.every((byte, i) => byte === blockIndex[i])
  }
  // The first entry tells nearly always. To look at all of them before each block would cost the square of the blocks.
  const isLikely = entries.length > 0 && (await begins(encodeBlockIndex(entries.slice(0, 1))))
  return isLikely && (await begins(encodeBlockIndex(entries)))
}

function checkFollows(entry: BlockEntry, previous: BlockEntry | undefined): void {
  if (entry.eventCount === 0) {
    throw new SegmentError('bad-block', 'an active segment holds a block without rows')
  }
  if (previous && entry.minSeq <= previous.maxSeq) {
    throw new SegmentError('bad-order', `seq ${entry.minSeq} follows ${previous.maxSeq} in the next block`)
  }
}
