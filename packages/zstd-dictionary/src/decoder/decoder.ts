/**
 * Decompresses frames that were made with a dictionary or without one, each alone (RFC 8878), on any platform. The tables of the
 * dictionary are read once. What must hold: whatever the bytes are, it ends with the content or with an error, and nothing
 * is allocated for a frame that claims more than it may have. The dictionary itself is trusted no more than a frame.
 */
import { DictionaryFrameError } from './bits.ts'
import { dictionaryId } from '../dictionary-id.ts'
import { type HuffmanTable, readFseTable, readHuffmanTable } from './entropy.ts'
import { type Block, blockBytesMax, type FrameHeader, readBlockHeader, readFrameHeader } from './frame.ts'
import { readLiterals } from './literals.ts'
import { codes, readSequences, type SequenceTables } from './sequences.ts'

export { DictionaryFrameError } from './bits.ts'
export { dictionaryId } from '../dictionary-id.ts'

export interface DictionaryDecoder {
  readonly dictionaryId: number
  /**
   * The content of one frame. A checksum after it is not compared: the connection that it came over has its own.
   * @param bytesMax what the content may have.
   * @throws DictionaryFrameError for whatever is not one such frame.
   */
  readonly decode: (frame: Uint8Array, bytesMax: number) => Uint8Array
}

type Offsets = [first: number, second: number, third: number]

/** What a block takes over from the one before, and the first from the dictionary. */
interface Known {
  literals: HuffmanTable | undefined
  tables: Partial<SequenceTables>
  offsets: Offsets
}

const headBytes = 8
const checksumBytes = 4

/** @throws RangeError when the bytes are not a dictionary with an id, DictionaryFrameError when its tables make no sense. */
export function createDictionaryDecoder(dictionary: Uint8Array): DictionaryDecoder {
  const id = dictionaryId(dictionary)
  return { dictionaryId: id, decode: decoderWith({ id, ...readDictionary(dictionary) }) }
}

/** As `decode` of a dictionary, for a frame that was made without one, whose id is 0. */
export const decompressFrame: DictionaryDecoder['decode'] = decoderWith({
  id: 0,
  known: { literals: undefined, tables: {}, offsets: [1, 4, 8] },
  content: new Uint8Array(0),
})

function decoderWith(dictionary: Dictionary): DictionaryDecoder['decode'] {
  return (frame, bytesMax) => {
    try {
      return decodeFrame(frame, dictionary, bytesMax)
    } catch (cause) {
      // What a DataView throws after its end.
      if (cause instanceof RangeError) throw new DictionaryFrameError('the frame is cut short', { cause })
      throw cause
    }
  }
}

function readDictionary(dictionary: Uint8Array): { known: Known; content: Uint8Array } {
  const { table: literals, end: offsetsAt } = readHuffmanTable(dictionary, headBytes)
  const { table: offsets, end: matchesAt } = readFseTable(dictionary, offsetsAt, codes.offsets)
  const { table: matchLengths, end: literalsAt } = readFseTable(dictionary, matchesAt, codes.matchLengths)
  const { table: literalLengths, end } = readFseTable(dictionary, literalsAt, codes.literalLengths)
  const view = new DataView(dictionary.buffer, dictionary.byteOffset, dictionary.byteLength)
  const content = dictionary.subarray(end + 12)
  if (end + 12 > dictionary.length) throw new DictionaryFrameError('the dictionary is cut short')
  const recent: Offsets = [
    view.getUint32(end, true),
    view.getUint32(end + 4, true),
    view.getUint32(end + 8, true),
  ]
  if (recent.some((offset) => offset === 0 || offset > content.length))
    throw new DictionaryFrameError('the dictionary begins before itself')
  return { known: { literals, tables: { literalLengths, offsets, matchLengths }, offsets: recent }, content }
}

interface Dictionary {
  id: number
  known: Known
  content: Uint8Array
}

function decodeFrame(frame: Uint8Array, dictionary: Dictionary, bytesMax: number): Uint8Array {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  const header = readFrameHeader(view)
  if (header.dictionaryId !== dictionary.id)
    throw new DictionaryFrameError(`the frame needs dictionary ${header.dictionaryId}`)
  const bound = measureBlocks(view, header)
  const { contentBytes = Math.min(bound, bytesMax) } = header
  if (contentBytes > bytesMax) throw new DictionaryFrameError(`the frame has more than ${bytesMax} bytes`)
  if (contentBytes > bound) throw new DictionaryFrameError('the frame claims more than its blocks can have')
  const target = new Target(new Uint8Array(contentBytes), dictionary.content)
  const { literals, tables, offsets } = dictionary.known
  const known: Known = { literals, tables: { ...tables }, offsets: [...offsets] }
  for (let at = header.at, isLast = false; !isLast;) {
    const block = readBlockHeader(view, at)
    if (block.type === 'raw') target.add(frame.subarray(block.at, block.end))
    else if (block.type === 'repeated') target.repeat(frame[block.at] ?? 0, block.size)
    else decodeBlock(frame, block, known, target)
    at = block.end
    isLast = block.isLast
  }
  if (header.contentBytes !== undefined && target.length !== header.contentBytes)
    throw new DictionaryFrameError('the frame has less than it claims')
  return target.bytes.subarray(0, target.length)
}

/** The most bytes that the blocks can have, before anything is allocated for them. Nothing may follow the frame. */
function measureBlocks(view: DataView, { at, hasChecksum }: FrameHeader): number {
  let bytes = 0
  let block = readBlockHeader(view, at)
  for (;;) {
    bytes += block.type === 'compressed' ? blockBytesMax : block.size
    if (block.isLast) break
    block = readBlockHeader(view, block.end)
  }
  if (block.end + (hasChecksum ? checksumBytes : 0) !== view.byteLength)
    throw new DictionaryFrameError('the frame does not end where its message does')
  return bytes
}

function decodeBlock(frame: Uint8Array, { at, end }: Block, known: Known, target: Target): void {
  const literals = readLiterals(frame, at, end, known.literals, blockBytesMax)
  known.literals = literals.table
  const { bytes } = literals
  let taken = 0
  readSequences(frame, literals.end, end, known.tables, (count, offsetValue, matchLength) => {
    if (taken + count > bytes.length) throw new DictionaryFrameError('a block has too few literals')
    target.addPart(bytes, taken, count)
    taken += count
    target.copy(offsetOf(known.offsets, offsetValue, count), matchLength)
  })
  target.add(bytes.subarray(taken))
}

/** The distance of a match: one of the last three, or another one, which is the newest of them then (RFC 8878, 3.1.1.5). */
function offsetOf(recent: Offsets, value: number, literals: number): number {
  const [first, second, third] = recent
  if (value > 3) {
    recent[2] = second
    recent[1] = first
    return (recent[0] = value - 3)
  }
  const index = literals === 0 ? value : value - 1
  if (index === 0) return first
  if (index !== 1) recent[2] = second
  recent[1] = first
  return (recent[0] = index === 1 ? second : index === 2 ? third : first - 1)
}

/** The content as far as it is known, behind the dictionary. */
class Target {
  readonly bytes: Uint8Array
  readonly #dictionary: Uint8Array
  length = 0

  constructor(bytes: Uint8Array, dictionary: Uint8Array) {
    this.bytes = bytes
    this.#dictionary = dictionary
  }

  add(bytes: Uint8Array): void {
    this.#check(bytes.length)
    this.bytes.set(bytes, this.length)
    this.length += bytes.length
  }

  /** Adds a few bytes: a view of them would take longer to make than they take to copy. */
  addPart(source: Uint8Array, from: number, count: number): void {
    this.#check(count)
    const { bytes, length } = this
    for (let i = 0; i < count; i++) bytes[length + i] = source[from + i] ?? 0
    this.length += count
  }

  repeat(byte: number, count: number): void {
    this.#check(count)
    this.bytes.fill(byte, this.length, this.length + count)
    this.length += count
  }

  copy(offset: number, count: number): void {
    this.#check(count)
    const { bytes } = this
    let from = this.length - offset
    const end = this.length + count
    if (offset === 0 || from < -this.#dictionary.length)
      throw new DictionaryFrameError('a match begins before the dictionary')
    let at = this.length
    if (from < 0) {
      const inDictionary = Math.min(-from, count)
      const start = this.#dictionary.length + from
      bytes.set(this.#dictionary.subarray(start, start + inDictionary), at)
      at += inDictionary
      from += inDictionary
    }
    // A match may reach into itself, so it is copied byte by byte.
    while (at < end) bytes[at++] = bytes[from++] ?? 0
    this.length = end
  }

  #check(count: number): void {
    if (this.length + count > this.bytes.length)
      throw new DictionaryFrameError('the frame has more than it claims')
  }
}
