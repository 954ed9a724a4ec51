/**
 * A record as bytes of atproto JSON, straight from its bytes of DAG-CBOR: most of a record is text without signs to escape,
 * which is the same bytes in both.
 */
import { toBytes } from '@atcute/cbor'
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

const encoder = new TextEncoder()
/** Around the base32 of a CID. */
const [linkStart, linkEnd] = [encoder.encode('{"$link":"b'), encoder.encode('"}')]
const base32Signs = encoder.encode('abcdefghijklmnopqrstuvwxyz234567')
/** UTF-8 takes at most three bytes for a unit of a JavaScript string. */
const bytesPerUnitMax = 3
const [comma, colon, quote, backslash, firstPrintable] = [44, 58, 34, 92, 32]
const zero = 48
const intMax = 2 ** 31 - 1
const [openList, closeList, openMap, closeMap] = [91, 93, 123, 125]

/** Bytes that grow as they are written. */
export class ByteWriter {
  #bytes: Uint8Array
  #at = 0

  constructor(capacity: number) {
    this.#bytes = new Uint8Array(capacity)
  }

  get length(): number {
    return this.#at
  }

  /** What was written so far. It is overwritten after `cut`. */
  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.#at)
  }

  /** Takes back everything after `length`. */
  cut(length: number): void {
    this.#at = length
  }

  byte(value: number): void {
    this.#reserve(1)
    this.#bytes[this.#at++] = value
  }

  text(text: string): void {
    this.#reserve(text.length * bytesPerUnitMax)
    this.#at += encoder.encodeInto(text, this.#bytes.subarray(this.#at)).written
  }

  /** Text of ASCII alone, for which it is faster than `text` when it is short. */
  ascii(text: string): void {
    this.#reserve(text.length)
    const bytes = this.#bytes
    for (let i = 0; i < text.length; i++) bytes[this.#at++] = text.charCodeAt(i)
  }

  /** A whole number from 0 in decimal, with zeros before it up to a width. */
  digits(value: number, width = 1): void {
    let count = width
    for (let bound = 10 ** width; value >= bound; bound *= 10) count++
    this.#reserve(count)
    const bytes = this.#bytes
    let rest = value
    let at = this.#at + count
    while (rest > intMax) {
      const tenth = Math.floor(rest / 10)
      bytes[--at] = zero + (rest - tenth * 10)
      rest = tenth
    }
    // Division of small integers is faster.
    while (at > this.#at) {
      const tenth = (rest / 10) | 0
      bytes[--at] = zero + (rest - tenth * 10)
      rest = tenth
    }
    this.#at += count
  }

  /** Copies bytes if all of them are signs that a table has. False: nothing was written. */
  signs(source: Uint8Array, start: number, end: number, isAllowed: Uint8Array): boolean {
    this.#reserve(end - start)
    const bytes = this.#bytes
    let at = this.#at
    for (let i = start; i < end; i++) {
      const byte = source[i] ?? 0
      if (isAllowed[byte] !== 1) return false
      bytes[at++] = byte
    }
    this.#at = at
    return true
  }

  /** Copies a text in quotes, as far as its bytes need no other form in JSON. False: nothing was written. */
  quoted(source: Uint8Array, start: number, end: number): boolean {
    this.#reserve(end - start + 2)
    const bytes = this.#bytes
    let at = this.#at
    bytes[at++] = quote
    for (let i = start; i < end; i++) {
      const byte = source[i] ?? 0
      // What is not ASCII has to be checked.
      if (byte < firstPrintable || byte === quote || byte === backslash || byte > 126) return false
      bytes[at++] = byte
    }
    bytes[at++] = quote
    this.#at = at
    return true
  }

  /** Bytes that are text already. */
  bytes(source: Uint8Array): void {
    this.#reserve(source.length)
    this.#bytes.set(source, this.#at)
    this.#at += source.length
  }

  /** Base32 in small letters, without padding, as the text of a CID has it after its first letter. */
  base32(source: Uint8Array): void {
    this.#reserve(Math.ceil((source.length * 8) / 5))
    const bytes = this.#bytes
    let at = this.#at
    let i = 0
    // Five bytes are eight signs.
    for (; i + 5 <= source.length; i += 5) {
      const high = ((source[i] ?? 0) << 12) | ((source[i + 1] ?? 0) << 4) | ((source[i + 2] ?? 0) >> 4)
      const low = (((source[i + 2] ?? 0) & 15) << 16) | ((source[i + 3] ?? 0) << 8) | (source[i + 4] ?? 0)
      bytes[at] = base32Signs[high >> 15] ?? 0
      bytes[at + 1] = base32Signs[(high >> 10) & 31] ?? 0
      bytes[at + 2] = base32Signs[(high >> 5) & 31] ?? 0
      bytes[at + 3] = base32Signs[high & 31] ?? 0
      bytes[at + 4] = base32Signs[low >> 15] ?? 0
      bytes[at + 5] = base32Signs[(low >> 10) & 31] ?? 0
      bytes[at + 6] = base32Signs[(low >> 5) & 31] ?? 0
      bytes[at + 7] = base32Signs[low & 31] ?? 0
      at += 8
    }
    let pending = 0
    let bits = 0
    for (; i < source.length; i++) {
      pending = (pending << 8) | (source[i] ?? 0)
      bits += 8
      while (bits >= 5) {
        bits -= 5
        bytes[at++] = base32Signs[(pending >> bits) & 31] ?? 0
      }
    }
    if (bits > 0) bytes[at++] = base32Signs[(pending << (5 - bits)) & 31] ?? 0
    this.#at = at
  }

  #reserve(count: number): void {
    const needed = this.#at + count
    if (needed <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2))
    grown.set(this.#bytes.subarray(0, this.#at))
    this.#bytes = grown
  }
}

/**
 * Writes what `recordCborToJson` gives.
 * @throws RecordError for what that refuses. Then part of the value has been written.
 */
export function writeRecordJson(bytes: Uint8Array, out: ByteWriter): void {
  const reader = readerOf(bytes)
  writeValue(reader, out, 0)
  if (reader.at !== bytes.length) throw new RecordError('bytes after the end of the value')
}

function writeValue(reader: CborReader, out: ByteWriter, depth: number): void {
  enterValue(reader, depth)
  const initial = reader.bytes[reader.at++]
  if (initial === undefined) throw new RecordError('the value ends early')
  const info = initial & 31
  switch (initial >> 5) {
    case 0:
      return out.digits(readArgument(reader, info))
    case 1:
      return out.ascii(String(-1 - readArgument(reader, info)))
    case 2:
      return out.text(`{"$bytes":"${toBytes(take(reader, readArgument(reader, info))).$bytes}"}`)
    case 3:
      return writeText(reader, out, readArgument(reader, info))
    case 4: {
      out.byte(openList)
      const count = readArgument(reader, info)
      for (let i = 0; i < count; i++) {
        if (i > 0) out.byte(comma)
        writeValue(reader, out, depth + 1)
      }
      return out.byte(closeList)
    }
    case 5:
      return writeMap(reader, out, readArgument(reader, info), depth)
    case 6:
      return writeLink(reader, out, readArgument(reader, info))
    default:
      return out.ascii(String(readSimple(reader, info)))
  }
}

function writeMap(reader: CborReader, out: ByteWriter, count: number, depth: number): void {
  out.byte(openMap)
  let previousAt = 0
  let previousLength = -1
  for (let i = 0; i < count; i++) {
    const initial = reader.bytes[reader.at++] ?? 0
    if (initial >> 5 !== 3) throw new RecordError('a map key is not text')
    const length = readArgument(reader, initial & 31)
    const at = reader.at
    if (i > 0) out.byte(comma)
    writeText(reader, out, length)
    if (!isBefore(reader.bytes, previousAt, previousLength, at, length)) {
      throw new RecordError('map keys are not in DAG-CBOR order')
    }
    previousAt = at
    previousLength = length
    out.byte(colon)
    writeValue(reader, out, depth + 1)
  }
  out.byte(closeMap)
}

function writeLink(reader: CborReader, out: ByteWriter, tag: number): void {
  const { bytes } = readLink(reader, tag)
  out.bytes(linkStart)
  out.base32(bytes)
  out.bytes(linkEnd)
}

function writeText(reader: CborReader, out: ByteWriter, length: number): void {
  const start = skip(reader, length)
  if (out.quoted(reader.bytes, start, reader.at)) return
  reader.at = start
  out.text(JSON.stringify(readText(reader, length)))
}
