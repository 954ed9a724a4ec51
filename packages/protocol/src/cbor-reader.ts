/** Reads the parts of DAG-CBOR that records are made of, within the protocol's bounds. */
import { type Cid, fromBinary } from '@atcute/cid'
import { decodeUtf8From } from '@atcute/uint8array'
import { limits } from './limits.ts'

/** The bytes of a record are not DAG-CBOR within the protocol's bounds. */
export class RecordError extends Error {
  override readonly name = 'RecordError'
}

export interface CborReader {
  readonly bytes: Uint8Array
  at: number
  /** Values that may still come. */
  valuesLeft: number
}

/** Reads a record from its start. */
export function readerOf(bytes: Uint8Array): CborReader {
  return { bytes, at: 0, valuesLeft: limits.recordValues }
}

/** One more value begins, within so many others. */
export function enterValue(reader: CborReader, depth: number): void {
  if (depth > limits.cborDepth) throw new RecordError(`nested over ${limits.cborDepth} levels`)
  if (--reader.valuesLeft < 0) throw new RecordError(`more than ${limits.recordValues} values`)
}

/** DAG-CBOR's order of map keys: by length, then by bytes. */
export function isBefore(bytes: Uint8Array, a: number, aLength: number, b: number, bLength: number): boolean {
  if (aLength !== bLength) return aLength < bLength
  for (let i = 0; i < aLength; i++) {
    const difference = (bytes[a + i] ?? 0) - (bytes[b + i] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

/** The CID of a link whose tag was read. */
export function readLink(reader: CborReader, tag: number): Cid {
  const initial = reader.bytes[reader.at++] ?? 0
  if (tag !== 42 || initial >> 5 !== 2) throw new RecordError('only tag 42 with a byte string is allowed')
  const binary = take(reader, readArgument(reader, initial & 31))
  try {
    return fromBinary(binary)
  } catch (cause) {
    throw new RecordError('a link is not a CID of the protocol', { cause })
  }
}

export function readSimple(reader: CborReader, info: number): boolean | null | number {
  switch (info) {
    case 20:
      return false
    case 21:
      return true
    case 22:
      return null
    case 27: {
      const raw = take(reader, 8)
      const value = new DataView(raw.buffer, raw.byteOffset, 8).getFloat64(0)
      if (!Number.isFinite(value)) throw new RecordError('a float is not finite')
      // JSON knows no -0.
      return value === 0 ? 0 : value
    }
    default:
      throw new RecordError(`simple value ${info} is not allowed`)
  }
}

export function readArgument(reader: CborReader, info: number): number {
  if (info < 24) return info
  if (info === 24) {
    const value = reader.bytes[reader.at++]
    if (value === undefined) throw new RecordError('the value ends early')
    if (value < 24) throw new RecordError('a number is not in its shortest form')
    return value
  }
  if (info > 27) throw new RecordError('indefinite length')
  const size = 1 << (info - 24)
  let value = 0
  for (let at = skip(reader, size); at < reader.at; at++) value = value * 256 + (reader.bytes[at] ?? 0)
  if (value < 2 ** (4 * size)) throw new RecordError('a number is not in its shortest form')
  if (!Number.isSafeInteger(value)) throw new RecordError('an integer is beyond 2^53 - 1')
  return value
}

export function readText(reader: CborReader, length: number): string {
  const start = skip(reader, length)
  try {
    return decodeUtf8From(reader.bytes, start, length)
  } catch (cause) {
    throw new RecordError('a text is not valid UTF-8', { cause })
  }
}

export function take(reader: CborReader, length: number): Uint8Array {
  const start = skip(reader, length)
  return reader.bytes.subarray(start, reader.at)
}

/** Passes over bytes, and returns where they begin. */
export function skip(reader: CborReader, length: number): number {
  const start = reader.at
  const end = start + length
  if (end > reader.bytes.length) throw new RecordError('the value ends early')
  reader.at = end
  return start
}
