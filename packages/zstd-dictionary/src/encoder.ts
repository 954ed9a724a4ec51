/**
 * Two encoders behind one function. The codec in WebAssembly keeps a dictionary digested and is ten times as fast, but
 * has 16 MiB of memory in all, and gives large frames a larger window. Node's own zstd digests the dictionary for every
 * message, and takes whatever is too large for the codec.
 */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import type { Zstd } from 'zstd-codec'
import { dictionaryId } from './dictionary-id.ts'

export interface DictionaryEncoder {
  readonly dictionaryId: number
  /** One zstd frame that names the dictionary, has the length of its content, and fits a window of 128 KiB. */
  readonly encode: (content: Uint8Array) => Uint8Array
}

const windowLog = 17
/** The window of a frame that was made in one piece is its content. */
const codecBytesMax = 2 ** windowLog
/** The next levels gain 2 to 4 % of size, and cost a fifth to a third more. */
const level = 1

/**
 * Loads the codec once for all encoders, and digests the dictionary.
 * @throws RangeError when the bytes are not a dictionary that can be used.
 */
export async function createDictionaryEncoder(dictionary: Uint8Array): Promise<DictionaryEncoder> {
  const id = dictionaryId(dictionary)
  const encodeSmall = await loadCodec(dictionary)
  const params = {
    [constants.ZSTD_c_compressionLevel]: level,
    [constants.ZSTD_c_windowLog]: windowLog,
  }
  const encode = (content: Uint8Array): Uint8Array => {
    const isSmall = content.length > 0 && content.length <= codecBytesMax
    // More than the longest frame of this content: Node writes an empty frame after one that fills its buffer to the last byte.
    const chunkSize = content.length + (content.length >> 7) + 1024
    return (
      (isSmall ? encodeSmall(content) : null) ?? zstdCompressSync(content, { dictionary, params, chunkSize })
    )
  }
  checkEncoder(encode, dictionary)
  return { dictionaryId: id, encode }
}

/** The codec takes any bytes for a dictionary, and then compresses without one. */
function checkEncoder(encode: DictionaryEncoder['encode'], dictionary: Uint8Array): void {
  const content = Buffer.from('{"$type":"message"}')
  try {
    if (zstdDecompressSync(encode(content), { dictionary }).equals(content)) return
  } catch (cause) {
    throw new RangeError('the zstd dictionary cannot be used', { cause })
  }
  throw new RangeError('the zstd dictionary gives other bytes than were compressed')
}

let codec: Promise<Zstd> | undefined

/** The fast encoder of a dictionary. It answers null for what it cannot do. */
async function loadCodec(dictionary: Uint8Array): Promise<(content: Uint8Array) => Uint8Array | null> {
  const { Simple, Dict } = await (codec ??= openCodec())
  const digested = new Dict.Compression(dictionary, level)
  const simple = new Simple()
  return (content) => {
    try {
      return simple.compressUsingDict(content, digested)
    } catch {
      // Its memory is used up. The other encoder needs none of it.
      return null
    }
  }
}

async function openCodec(): Promise<Zstd> {
  try {
    const { ZstdCodec } = (await import('zstd-codec')).default
    return await new Promise((resolve) => ZstdCodec.run(resolve))
  } catch (error) {
    // The next load may succeed: too many open files, for one, are over some time.
    codec = undefined
    throw error
  }
}
