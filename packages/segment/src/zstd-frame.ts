import { SegmentError } from './errors.ts'
import { xxh64Low32 } from './hash.ts'
import { viewOf } from './integers.ts'
import { segmentLimits } from './limits.ts'

/**
 * Decompresses one zstd frame. `bytesMax` is an upper bound of the result that follows from the frame itself; going
 * past it must throw. Checking the content checksum is optional here: unpackFrame does it for every implementation.
 */
export type Decompress = (frame: Uint8Array, bytesMax: number) => Uint8Array

/** What the bytes say before anything is decompressed. */
export interface FrameInfo {
  /** Upper bound of the decompressed size; exact when the frame carries its content size. */
  readonly bytesMax: number
  readonly contentChecksum: number
}

const zstdMagic = 0xfd2fb528
const blockBytesMax = 128 * 1024
const contentChecksumBytes = 4
const contentSizeBytes = [0, 2, 4, 8] as const

/**
 * Checks that the bytes are exactly one zstd frame as segment-format.md 4 wants it: content checksum, no dictionary,
 * nothing before or after. Throws SegmentError `bad-frame`. Decompressors accept more than that (a second frame,
 * trailing bytes), which would let two readers see different rows.
 */
export function inspectFrame(frame: Uint8Array, bytesMax: number = segmentLimits.blockBodyBytes): FrameInfo {
  const view = viewOf(frame)
  try {
    return walkFrame(view, bytesMax)
  } catch (cause) {
    if (cause instanceof RangeError) throw new SegmentError('bad-frame', 'zstd frame is cut short', { cause })
    throw cause
  }
}

/** Bytes that a frame decompresses to at most, by what it says of itself. Throws SegmentError `bad-frame`. */
export function frameBodyBytes(frame: Uint8Array, bytesMax?: number): number {
  return inspectFrame(frame, bytesMax).bytesMax
}

/**
 * Where a frame ends that begins at `start`, as far as its own lengths say; undefined when there is none. Whether it is
 * whole is for `inspectFrame`.
 */
export function frameEnd(bytes: Uint8Array, start: number): number | undefined {
  const view = viewOf(bytes.subarray(start))
  try {
    return start + walkBlocks(view, blocksStart(view).at).end + contentChecksumBytes
  } catch (error) {
    if (error instanceof RangeError || error instanceof SegmentError) return undefined
    throw error
  }
}

function walkFrame(view: DataView, bytesMax: number): FrameInfo {
  const { at, contentSize } = blocksStart(view)
  const { bound, end } = walkBlocks(view, at)
  const contentChecksum = view.getUint32(end, true)
  if (end + contentChecksumBytes !== view.byteLength)
    throw new SegmentError('bad-frame', 'bytes follow the zstd frame')
  const most = Math.min(bound, bytesMax)
  if (contentSize !== undefined && contentSize > most) {
    throw new SegmentError('bad-frame', `zstd frame announces ${contentSize} bytes, over ${most}`)
  }
  return { bytesMax: contentSize ?? most, contentChecksum }
}

function blocksStart(view: DataView): { at: number; contentSize: number | undefined } {
  if (view.getUint32(0, true) !== zstdMagic) throw new SegmentError('bad-frame', 'not a zstd frame')
  const descriptor = view.getUint8(4)
  const isSingleSegment = (descriptor & 0x20) !== 0
  if ((descriptor & 0x08) !== 0) throw new SegmentError('bad-frame', 'zstd frame uses a reserved bit')
  if ((descriptor & 0x04) === 0) throw new SegmentError('bad-frame', 'zstd frame has no content checksum')
  if ((descriptor & 0x03) !== 0) throw new SegmentError('bad-frame', 'zstd frame names a dictionary')
  let at = isSingleSegment ? 5 : 6
  const sizeFlag = descriptor >> 6
  const sizeBytes = sizeFlag === 0 && isSingleSegment ? 1 : (contentSizeBytes[sizeFlag] ?? 0)
  const contentSize = readContentSize(view, at, sizeBytes)
  at += sizeBytes
  return { at, contentSize }
}

/** Steps over the blocks of a frame. `bound` is the most bytes that they can have decompressed. */
function walkBlocks(view: DataView, start: number): { bound: number; end: number } {
  let at = start
  let bound = 0
  for (let isLast = false; !isLast;) {
    const header = view.getUint16(at, true) + view.getUint8(at + 2) * 0x10000
    const type = (header >> 1) & 3
    const size = header >> 3
    if (type === 3 || size > blockBytesMax) {
      throw new SegmentError('bad-frame', 'zstd frame has an invalid block')
    }
    bound += type === 2 ? blockBytesMax : size
    at += 3 + (type === 1 ? 1 : size)
    isLast = (header & 1) === 1
  }
  return { bound, end: at }
}

function readContentSize(view: DataView, at: number, bytes: 0 | 1 | 2 | 4 | 8): number | undefined {
  switch (bytes) {
    case 0:
      return undefined
    case 1:
      return view.getUint8(at)
    case 2:
      return view.getUint16(at, true) + 256
    case 4:
      return view.getUint32(at, true)
    case 8:
      return view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32
  }
}

/**
 * Decompresses one stored frame and checks its content checksum. `bytesMax` bounds the result (default 1 GiB).
 * Throws SegmentError `bad-frame`, whatever the decompressor throws.
 */
export function unpackFrame(frame: Uint8Array, decompress: Decompress, bytesMax?: number): Uint8Array {
  const info = inspectFrame(frame, bytesMax)
  let content: Uint8Array
  try {
    content = decompress(frame, info.bytesMax)
  } catch (cause) {
    throw new SegmentError('bad-frame', 'zstd frame does not decompress', { cause })
  }
  checkContent(content, info)
  return content
}

/** Throws SegmentError `bad-frame` for more bytes than their frame announced. */
export function checkLength(content: Uint8Array, { bytesMax }: FrameInfo): void {
  if (content.length > bytesMax) throw new SegmentError('bad-frame', 'zstd frame decompressed past its bound')
}

function checkContent(content: Uint8Array, info: FrameInfo): void {
  checkLength(content, info)
  if (xxh64Low32(content) !== info.contentChecksum) {
    throw new SegmentError('bad-frame', 'zstd content checksum does not match')
  }
}
