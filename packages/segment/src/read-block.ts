import { type BlockEntry, framePrefixBytes } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { SegmentError } from './errors.ts'
import { unpackFrameAsync } from './node-zstd.ts'
import type { SegmentFile } from './segment-file.ts'
import { decodeEntry, frameOf } from './stored-block.ts'

/** The entry of a block. Throws SegmentError `no-such-block`. */
export function entryAt(entries: readonly BlockEntry[], index: number): BlockEntry {
  const entry = entries[index]
  if (!entry) throw new SegmentError('no-such-block', `no block ${index} among ${entries.length}`)
  return entry
}

/** The stored frame of a block, without its length prefix. */
export async function readFrame(file: SegmentFile, entry: BlockEntry): Promise<Uint8Array> {
  using _lease = file.lease()
  return frameOf(await file.read(entry.offset, framePrefixBytes + entry.compressedSize), entry)
}

export async function readBlock(file: SegmentFile, entry: BlockEntry): Promise<BlockView> {
  const frame = await readFrame(file, entry)
  return decodeEntry(await unpackFrameAsync(frame, entry.uncompressedSize), entry)
}
