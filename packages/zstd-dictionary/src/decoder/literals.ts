/** Literals of a block: bytes that are copied from nowhere (RFC 8878, 3.1.1.3.1). */
import { backwardBits, DictionaryFrameError } from './bits.ts'
import { type HuffmanTable, readHuffmanTable } from './entropy.ts'

export interface Literals {
  bytes: Uint8Array
  /** The code for the next block. */
  table: HuffmanTable | undefined
  end: number
}

const types = { raw: 0, repeated: 1, described: 2, known: 3 } as const

/** @param bytesMax of a whole block, which its literals alone cannot exceed. */
export function readLiterals(
  source: Uint8Array,
  start: number,
  end: number,
  before: HuffmanTable | undefined,
  bytesMax: number,
): Literals {
  const first = source[start] ?? 0
  const type = first & 3
  const format = (first >> 2) & 3
  const field = first + (source[start + 1] ?? 0) * 2 ** 8 + (source[start + 2] ?? 0) * 2 ** 16
  if (type === types.raw || type === types.repeated) {
    const headBytes = format === 1 ? 2 : format === 3 ? 3 : 1
    const size = format === 1 ? (field & 0xffff) >> 4 : format === 3 ? field >> 4 : first >> 3
    const at = start + headBytes
    const literalsEnd = at + (type === types.raw ? size : 1)
    if (literalsEnd > end || size > bytesMax) throw new DictionaryFrameError('literals are cut short')
    const bytes =
      type === types.raw ? source.subarray(at, literalsEnd) : new Uint8Array(size).fill(source[at] ?? 0)
    return { bytes, table: before, end: literalsEnd }
  }
  const headBytes = Math.max(3, format + 2)
  const sizeBits = format < 2 ? 10 : format === 2 ? 14 : 18
  const whole = field + (source[start + 3] ?? 0) * 2 ** 24 + (source[start + 4] ?? 0) * 2 ** 32
  const size = Math.floor(whole / 2 ** 4) % 2 ** sizeBits
  const stored = Math.floor(whole / 2 ** (4 + sizeBits)) % 2 ** sizeBits
  const literalsEnd = start + headBytes + stored
  if (literalsEnd > end || size > bytesMax) throw new DictionaryFrameError('literals are cut short')
  const part = source.subarray(0, literalsEnd)
  const described = type === types.described ? readHuffmanTable(part, start + headBytes) : undefined
  const table = described?.table ?? before
  if (table === undefined) throw new DictionaryFrameError('a code is repeated that was not there')
  const bytes = new Uint8Array(size)
  const at = described?.end ?? start + headBytes
  if (format === 0) readStream(part, at, literalsEnd, table, bytes)
  else readFourStreams(part, at, literalsEnd, table, bytes)
  return { bytes, table, end: literalsEnd }
}

function readFourStreams(
  source: Uint8Array,
  start: number,
  end: number,
  table: HuffmanTable,
  target: Uint8Array,
): void {
  const each = (target.length + 3) >> 2
  let at = start + 6
  for (let i = 0; i < 4; i++) {
    const length = (source[start + 2 * i] ?? 0) + ((source[start + 2 * i + 1] ?? 0) << 8)
    const streamEnd = i < 3 ? at + length : end
    if (streamEnd > end || each * i > target.length) throw new DictionaryFrameError('literals are cut short')
    readStream(source, at, streamEnd, table, target.subarray(each * i, i < 3 ? each * (i + 1) : undefined))
    at = streamEnd
  }
}

/** Fills the target, which must use up all bits. */
function readStream(
  source: Uint8Array,
  start: number,
  end: number,
  { bitsMax, symbols, bits: lengths }: HuffmanTable,
  target: Uint8Array,
): void {
  const bits = backwardBits(source, start, end)
  const mask = (1 << bitsMax) - 1
  let state = bits.read(bitsMax)
  for (let i = 0; i < target.length; i++) {
    target[i] = symbols[state] ?? 0
    const length = lengths[state] ?? 0
    state = ((state << length) | bits.read(length)) & mask
  }
  if (bits.left !== -bitsMax) throw new DictionaryFrameError('literals do not end where they should')
}
