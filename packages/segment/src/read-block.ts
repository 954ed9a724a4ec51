import { type BlockEntry, framePrefixBytes } from './block-index.ts'
import type { BlockView } from './block-view.ts'
import { freeBytes } from './free-bytes.ts'
import { unpackFrameAsync } from './node-zstd.ts'
import type { SegmentFile } from './segment-file.ts'
import { decodeEntry, frameOf } from './stored-block.ts'

/** The stored frame of a block, without its length prefix. */
export async function readFrame(file: SegmentFile, entry: BlockEntry): Promise<Uint8Array> {
  using reader = file.lease()
  return frameOf(await reader.read(entry.offset, framePrefixBytes + entry.compressedSize), entry)
}

export async function readBlock(file: SegmentFile, entry: BlockEntry): Promise<BlockView> {
  const frame = await readFrame(file, entry)
  const block = await unpackBlock(frame, entry)
  freeBytes(frame)
  return block
}

/** The block in a stored frame. Throws SegmentError `bad-frame` or `bad-block`. */
export async function unpackBlock(frame: Uint8Array, entry: BlockEntry): Promise<BlockView> {
  return decodeEntry(await unpackFrameAsync(frame, entry.uncompressedSize), entry)
}
