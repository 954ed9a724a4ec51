/** A record as an object of atproto JSON, straight from its bytes. */
import { toBytes } from '@atcute/cbor'
import { toString } from '@atcute/cid'
import {
  type CborReader,
  enterValue,
  isBefore,
  readArgument,
  readerOf,
  readLink,
  readSimple,
  readText,
  RecordError,
  skip,
  take,
} from './cbor-reader.ts'

/** Texts up to this length are read byte by byte, which takes less than calling a decoder. */
const shortTextBytes = 12
/** Keys are few and come again in every record: remembered by a hash of their bytes, the newer one stays. */
const knownKeyBytes = 48
const knownKeys: ({ key: string; bytes: Uint8Array } | undefined)[] = Array.from({ length: 1024 })

/**
 * The value that parsing `recordCborToJson` would give, without the text in between.
 * @throws RecordError for what `recordCborToJson` refuses.
 */
export function recordCborToValue(bytes: Uint8Array): unknown {
  const reader = readerOf(bytes)
  const value = readValue(reader, 0)
  if (reader.at !== bytes.length) throw new RecordError('bytes after the end of the value')
  return value
}

function readValue(reader: CborReader, depth: number): unknown {
  enterValue(reader, depth)
  const initial = reader.bytes[reader.at++]
  if (initial === undefined) throw new RecordError('the value ends early')
  const info = initial & 31
  switch (initial >> 5) {
    case 0:
      return readArgument(reader, info)
    case 1:
      return -1 - readArgument(reader, info)
    case 2:
      return { $bytes: toBytes(take(reader, readArgument(reader, info))).$bytes }
    case 3:
      return textOf(reader, readArgument(reader, info))
    case 4: {
      const items: unknown[] = []
      for (let left = readArgument(reader, info); left > 0; left--) items.push(readValue(reader, depth + 1))
      return items
    }
    case 5:
      return readMap(reader, readArgument(reader, info), depth)
    case 6:
      return { $link: toString(readLink(reader, readArgument(reader, info))) }
    default:
      return readSimple(reader, info)
  }
}

function readMap(reader: CborReader, count: number, depth: number): Record<string, unknown> {
  const map: Record<string, unknown> = {}
  let previousAt = 0
  let previousLength = -1
  for (let i = 0; i < count; i++) {
    const initial = reader.bytes[reader.at++] ?? 0
    if (initial >> 5 !== 3) throw new RecordError('a map key is not text')
    const length = readArgument(reader, initial & 31)
    const at = reader.at
    const key = keyOf(reader, length)
    if (!isBefore(reader.bytes, previousAt, previousLength, at, length)) {
      throw new RecordError('map keys are not in DAG-CBOR order')
    }
    previousAt = at
    previousLength = length
    const value = readValue(reader, depth + 1)
    // Assigning this one would change what the object inherits.
    if (key === '__proto__')
      Object.defineProperty(map, key, { value, enumerable: true, writable: true, configurable: true })
    else map[key] = value
  }
  return map
}

/** A key that was read before costs a comparison of its bytes. */
function keyOf(reader: CborReader, length: number): string {
  if (length > knownKeyBytes || reader.at + length > reader.bytes.length) return readText(reader, length)
  const { bytes, at } = reader
  let hash = length
  for (let i = at; i < at + length; i++) hash = (hash * 31 + (bytes[i] ?? 0)) | 0
  const place = hash & (knownKeys.length - 1)
  const known = knownKeys[place]
  if (known !== undefined && isSame(known.bytes, bytes, at, length)) {
    reader.at += length
    return known.key
  }
  const key = readText(reader, length)
  knownKeys[place] = { key, bytes: bytes.slice(at, at + length) }
  return key
}

function isSame(known: Uint8Array, bytes: Uint8Array, at: number, length: number): boolean {
  if (known.length !== length) return false
  for (let i = 0; i < length; i++) if (known[i] !== bytes[at + i]) return false
  return true
}

function textOf(reader: CborReader, length: number): string {
  if (length > shortTextBytes) return readText(reader, length)
  const { bytes } = reader
  const start = skip(reader, length)
  let text = ''
  for (let at = start; at < reader.at; at++) {
    const byte = bytes[at] ?? 0
    if (byte > 127) {
      reader.at = start
      return readText(reader, length)
    }
    text += String.fromCharCode(byte)
  }
  return text
}
