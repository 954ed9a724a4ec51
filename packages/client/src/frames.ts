import { StreamError } from './errors.ts'

const headerBytes = 256
const prefixBytes = 8
/** "jss0" as a little-endian number. */
const magic = 0x3073736a
const version = 1
/** Compressed bytes of one block that we hold in memory. Blocks of 4096 rows have a few MB at most. */
export const frameBytesMax: number = 64 * 1024 * 1024

/**
 * Cuts a segment into the compressed frames of its blocks as its bytes arrive, and stops where the footer begins:
 * the footer is for those who search, and every frame carries a checksum of its own.
 * @throws StreamError `ProtocolError` when the bytes are not a sealed segment, `Unreachable` when they end early.
 */
export async function* segmentFrames(
  chunks: AsyncGenerator<Uint8Array, void>,
): AsyncGenerator<Uint8Array, void> {
  const reader = new ChunkReader(chunks)
  try {
    const header = readHeader(await reader.take(headerBytes))
    for (let i = 0; i < header.blockCount; i++) {
      const prefix = await reader.take(prefixBytes)
      const view = new DataView(prefix.buffer, prefix.byteOffset, prefixBytes)
      const length = view.getUint32(0, true) + view.getUint32(4, true) * 2 ** 32
      if (length > frameBytesMax || reader.position + length > header.footerOffset) {
        throw new StreamError('ProtocolError', `block ${i} claims ${length} bytes`)
      }
      yield await reader.take(length)
    }
    // Blocks are contiguous up to the footer (segment-format.md 2): what a header does not count would be left out.
    if (reader.position !== header.footerOffset)
      throw new StreamError(
        'ProtocolError',
        `a segment has ${header.blockCount} blocks, and more before its footer`,
      )
  } finally {
    await chunks.return()
  }
}

/** The two fields of the fixed header that say where the blocks are (segment-format.md 2). */
function readHeader(bytes: Uint8Array): { blockCount: number; footerOffset: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, headerBytes)
  const isSealed = view.getBigUint64(4, true) !== 0n
  if (view.getUint32(0, true) !== magic || view.getUint16(12, true) !== version || !isSealed) {
    throw new StreamError('ProtocolError', 'the server sent something else than a sealed segment')
  }
  return { blockCount: view.getUint32(14, true), footerOffset: Number(view.getBigUint64(58, true)) }
}

/** Reads exact lengths from chunks of any size. */
class ChunkReader {
  /** Bytes taken so far. */
  position = 0
  readonly #chunks: AsyncGenerator<Uint8Array, void>
  #rest: Uint8Array = new Uint8Array(0)

  constructor(chunks: AsyncGenerator<Uint8Array, void>) {
    this.#chunks = chunks
  }

  async take(length: number): Promise<Uint8Array> {
    this.position += length
    if (this.#rest.length >= length) return this.#cut(length)
    const taken = new Uint8Array(length)
    let filled = 0
    while (filled < length) {
      if (this.#rest.length === 0) {
        const next = await this.#chunks.next()
        if (next.done) throw new StreamError('Unreachable', 'a segment ended early')
        this.#rest = next.value
      }
      const piece = this.#cut(Math.min(this.#rest.length, length - filled))
      taken.set(piece, filled)
      filled += piece.length
    }
    return taken
  }

  #cut(length: number): Uint8Array {
    const piece = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    return piece
  }
}
