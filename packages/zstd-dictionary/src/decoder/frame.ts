import { DictionaryFrameError } from './bits.ts'

/** What a frame says of itself (RFC 8878, 3.1.1). */
export interface FrameHeader {
  dictionaryId: number
  /** Undefined when the frame does not tell. */
  contentBytes: number | undefined
  hasChecksum: boolean
  /** Where its blocks begin. */
  at: number
}

export interface Block {
  type: 'raw' | 'repeated' | 'compressed'
  isLast: boolean
  /** Bytes that are stored, or how often the one stored byte comes. */
  size: number
  /** Where what is stored begins and ends. */
  at: number
  end: number
}

export const blockBytesMax: number = 128 * 1024
const magic = 0xfd2fb528
const idBytes = [0, 1, 2, 4] as const
const sizeBytes = [0, 2, 4, 8] as const
const blockTypes = ['raw', 'repeated', 'compressed'] as const

export function readFrameHeader(view: DataView): FrameHeader {
  if (view.getUint32(0, true) !== magic) throw new DictionaryFrameError('not a zstd frame')
  const descriptor = view.getUint8(4)
  const isOnePiece = (descriptor & 0x20) !== 0
  if ((descriptor & 0x08) !== 0) throw new DictionaryFrameError('the frame uses a reserved bit')
  const idAt = isOnePiece ? 5 : 6
  const idLength = idBytes[(descriptor & 3) as 0 | 1 | 2 | 3] // two bits
  const sizeFlag = (descriptor >> 6) as 0 | 1 | 2 | 3 // two bits
  const sizeLength = sizeFlag === 0 && isOnePiece ? 1 : sizeBytes[sizeFlag]
  const sizeAt = idAt + idLength
  return {
    dictionaryId: readNumber(view, idAt, idLength),
    contentBytes:
      sizeLength === 0 ? undefined : readNumber(view, sizeAt, sizeLength) + (sizeLength === 2 ? 256 : 0),
    hasChecksum: (descriptor & 0x04) !== 0,
    at: sizeAt + sizeLength,
  }
}

export function readBlockHeader(view: DataView, at: number): Block {
  const head = readNumber(view, at, 3)
  const type = blockTypes[(head >> 1) & 3]
  const size = head >> 3
  if (type === undefined || size > blockBytesMax)
    throw new DictionaryFrameError('the frame has an invalid block')
  const start = at + 3
  return { type, isLast: (head & 1) === 1, size, at: start, end: start + (type === 'repeated' ? 1 : size) }
}

/** A number of up to eight bytes, the lowest first. Above 2^53 it is not exact. */
function readNumber(view: DataView, at: number, bytes: number): number {
  let value = 0
  for (let i = bytes - 1; i >= 0; i--) value = value * 256 + view.getUint8(at + i)
  return value
}
