import { promisify } from 'node:util'
import { constants, type ZstdOptions, zstdCompress, zstdDecompress, zstdDecompressSync } from 'node:zlib'
import { type BlockView, decodeBlock } from './block-view.ts'
import { SegmentError } from './errors.ts'
import { checkLength, type Decompress, frameEnd, inspectFrame } from './zstd-frame.ts'

const compressAsync = promisify(zstdCompress)
const decompressAsync = promisify(zstdDecompress)

// Node fills buffers of this size and joins them: one buffer for most blocks, little waste for small ones. A buffer that is
// filled to its last byte is followed by another one, so there is room for one byte more.
const chunkBytesMin = 1024
const chunkBytesMax = 4 * 1024 * 1024

function decompressOptions(bytesMax: number): ZstdOptions {
  return {
    chunkSize: Math.min(Math.max(bytesMax + 1, chunkBytesMin), chunkBytesMax),
    maxOutputLength: Math.max(bytesMax, 1),
  }
}

/** The same bytes without Buffer's methods, so that payloads look alike wherever they were decompressed. */
function plainBytes(bytes: Buffer): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Node's own zstd, for the reading functions of this package. */
export const nodeDecompress: Decompress = (frame, bytesMax) =>
  plainBytes(zstdDecompressSync(frame, decompressOptions(bytesMax)))

/** Like unpackFrame, on the thread pool. Node's zstd compares the content with the checksum in the frame there. */
export async function unpackFrameAsync(frame: Uint8Array, bytesMax?: number): Promise<Uint8Array> {
  const info = inspectFrame(frame, bytesMax)
  let content: Uint8Array
  try {
    content = plainBytes(await decompressAsync(frame, decompressOptions(info.bytesMax)))
  } catch (cause) {
    throw new SegmentError('bad-frame', 'zstd frame does not decompress', { cause })
  }
  checkLength(content, info)
  return content
}

/** Like decodeFrame, decompressed on the thread pool. */
export async function decodeFrameAsync(frame: Uint8Array, bodyBytesMax?: number): Promise<BlockView> {
  return decodeBlock(await unpackFrameAsync(frame, bodyBytesMax))
}

/** One zstd frame with content size and checksum, level 3, window at most 8 MiB (segment-format.md 4). */
export async function packFrame(content: Uint8Array): Promise<Uint8Array> {
  const frame = await compressAsync(content, {
    // Most frames are less than half as long, and take one buffer.
    chunkSize: Math.min(Math.max(content.length >> 1, chunkBytesMin), chunkBytesMax),
    pledgedSrcSize: content.length,
    params: {
      [constants.ZSTD_c_compressionLevel]: 3,
      [constants.ZSTD_c_checksumFlag]: 1,
    },
  })
  // When a frame fills a buffer to its last byte, Node calls zstd once more, which writes an empty frame after it.
  return plainBytes(frame).subarray(0, frameEnd(frame, 0))
}
