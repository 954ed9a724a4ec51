/**
 * Records between their two forms: DAG-CBOR bytes as repositories hold them, and atproto JSON as the stream sends it.
 * The way to JSON is a direct transcription, without objects in between: it runs once for every record of the stream.
 */
import { toBytes } from '@atcute/cbor'
import { fromBinary, toString } from '@atcute/cid'
import { decodeUtf8From } from '@atcute/uint8array'
import { limits } from './limits.ts'

/** The bytes of a record are not DAG-CBOR within the protocol's bounds. */
export class RecordError extends Error {
  override readonly name = 'RecordError'
}

interface Reader {
  readonly bytes: Uint8Array
  at: number
}

/**
 * The atproto JSON text of one DAG-CBOR value: links as `{"$link": …}`, byte strings as `{"$bytes": …}`.
 * Keys keep the order of the bytes.
 * @throws RecordError when the value is malformed, nested over 32 levels, or has an integer beyond 2^53 - 1.
 */
export function recordCborToJson(bytes: Uint8Array): string {
  const reader: Reader = { bytes, at: 0 }
  const json = readValue(reader, 0)
  if (reader.at !== bytes.length) throw new RecordError('bytes after the end of the value')
  return json
}

function readValue(reader: Reader, depth: number): string {
  if (depth > limits.cborDepth) throw new RecordError(`nested over ${limits.cborDepth} levels`)
  const initial = reader.bytes[reader.at++]
  if (initial === undefined) throw new RecordError('the value ends early')
  const info = initial & 31
  switch (initial >> 5) {
    case 0:
      return String(readArgument(reader, info))
    case 1:
      return String(-1 - readArgument(reader, info))
    case 2:
      return `{"$bytes":"${toBytes(take(reader, readArgument(reader, info))).$bytes}"}`
    case 3:
      return JSON.stringify(readText(reader, readArgument(reader, info)))
    case 4: {
      const items: string[] = []
      for (let left = readArgument(reader, info); left > 0; left--) items.push(readValue(reader, depth + 1))
      return `[${items.join(',')}]`
    }
    case 5:
      return readMap(reader, readArgument(reader, info), depth)
    case 6:
      return readLink(reader, readArgument(reader, info))
    default:
      return readSimple(reader, info)
  }
}

function readMap(reader: Reader, count: number, depth: number): string {
  let json = '{'
  let previous: Uint8Array | undefined
  for (let i = 0; i < count; i++) {
    const initial = reader.bytes[reader.at++] ?? 0
    if (initial >> 5 !== 3) throw new RecordError('a map key is not text')
    const length = readArgument(reader, initial & 31)
    const start = reader.at
    const key = readText(reader, length)
    const keyBytes = reader.bytes.subarray(start, reader.at)
    if (previous && !isBefore(previous, keyBytes)) throw new RecordError('map keys are not in DAG-CBOR order')
    previous = keyBytes
    json += `${i > 0 ? ',' : ''}${JSON.stringify(key)}:${readValue(reader, depth + 1)}`
  }
  return `${json}}`
}

/** DAG-CBOR's order of map keys: by length, then by bytes. */
function isBefore(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return a.length < b.length
  for (let i = 0; i < a.length; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

function readLink(reader: Reader, tag: number): string {
  const initial = reader.bytes[reader.at++] ?? 0
  if (tag !== 42 || initial >> 5 !== 2) throw new RecordError('only tag 42 with a byte string is allowed')
  const binary = take(reader, readArgument(reader, initial & 31))
  try {
    return `{"$link":"${toString(fromBinary(binary))}"}`
  } catch (cause) {
    throw new RecordError('a link is not a CID of the protocol', { cause })
  }
}

function readSimple(reader: Reader, info: number): string {
  switch (info) {
    case 20:
      return 'false'
    case 21:
      return 'true'
    case 22:
      return 'null'
    case 27: {
      const raw = take(reader, 8)
      const value = new DataView(raw.buffer, raw.byteOffset, 8).getFloat64(0)
      if (!Number.isFinite(value)) throw new RecordError('a float is not finite')
      return JSON.stringify(value)
    }
    default:
      throw new RecordError(`simple value ${info} is not allowed`)
  }
}

function readArgument(reader: Reader, info: number): number {
  if (info < 24) return info
  if (info > 27) throw new RecordError('indefinite length')
  const size = 1 << (info - 24)
  let value = 0
  for (const byte of take(reader, size)) value = value * 256 + byte
  const shortest = info === 24 ? 24 : 2 ** (4 * size)
  if (value < shortest) throw new RecordError('a number is not in its shortest form')
  if (!Number.isSafeInteger(value)) throw new RecordError('an integer is beyond 2^53 - 1')
  return value
}

function readText(reader: Reader, length: number): string {
  const start = reader.at
  take(reader, length)
  try {
    return decodeUtf8From(reader.bytes, start, length)
  } catch (cause) {
    throw new RecordError('a text is not valid UTF-8', { cause })
  }
}

function take(reader: Reader, length: number): Uint8Array {
  const end = reader.at + length
  if (end > reader.bytes.length) throw new RecordError('the value ends early')
  const bytes = reader.bytes.subarray(reader.at, end)
  reader.at = end
  return bytes
}
