import { type BlockEntry, framePrefixBytes } from './block-index.ts'
import type { BlockView } from './block-view.ts'
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
  return decodeEntry(await unpackFrameAsync(frame, entry.uncompressedSize), entry)
}
