/** Messages with other fields, and in other framings. Bytes are moved: nothing is decoded to be encoded again. */
import { recordCborToJson } from '@tributary/protocol'
import { CborReader } from './cbor-reader.ts'
import type { ErrorMessage, Message, MessageBytes } from './message.ts'
import { fieldsMax } from './read-message.ts'

/** The framings of proposal 0015: one self-describing object a message. */
export type FramingV1 = 'json' | 'cbor'

/**
 * The whole message with fields of its body put in, replaced, or left out.
 * @param fields by name: the CBOR of the value, or undefined to leave the field out. All other fields stay as they came.
 */
export function withFields(
  message: MessageBytes,
  fields: ReadonlyMap<string, Uint8Array | undefined>,
): Buffer {
  return Buffer.concat([message.bytes.subarray(0, message.bodyStart), ...bodyParts(message, fields)])
}

/**
 * The message in another framing.
 * @param nsid of the subscription, for the full name of the message's type. A type in the body itself does not count.
 */
export function reframe(message: Exclude<Message, ErrorMessage>, nsid: string, framing: FramingV1): Buffer {
  const t = message.kind === 'unknown' ? (message.t ?? '') : `#${message.kind}`
  const parts = bodyParts(message, new Map([['$type', textValue(`${nsid}${t}`)]]))
  if (framing === 'cbor') return Buffer.concat([envelope, ...parts])
  return Buffer.from(`{"$type":"message","payload":${recordCborToJson(Buffer.concat(parts))}}`)
}

/** A map of two fields, `$type: "message"` and `payload`, up to the value of the latter. */
const envelope = Buffer.concat([Buffer.of(0xa2), ...['$type', 'message', 'payload'].map(textValue)])

/**
 * The head of the body's map and the pieces that follow it, in the canonical order of their keys: by length, then by
 * bytes, which is the order of their CBOR, head and all.
 */
function bodyParts(message: MessageBytes, fields: ReadonlyMap<string, Uint8Array | undefined>): Uint8Array[] {
  const { bytes } = message
  const fieldStarts = startsOfFields(message)
  const added = [...fields]
    .filter((field): field is [string, Uint8Array] => field[1] !== undefined)
    .map(([key, value]) => ({ key: textValue(key), value }))
    .toSorted((a, b) => Buffer.compare(a.key, b.key))
  const replaced = new Set(Array.from(fields.keys(), (key) => textValue(key).toString('latin1')))
  const parts: Uint8Array[] = []
  let count = added.length
  let next = added.shift()
  for (const [i, start] of fieldStarts.entries()) {
    const end = fieldStarts[i + 1] ?? bytes.length
    const key = bytes.subarray(start, start + textBytes(bytes, start))
    for (; next && Buffer.compare(next.key, key) < 0; next = added.shift()) parts.push(next.key, next.value)
    if (replaced.has(key.toString('latin1'))) continue
    parts.push(bytes.subarray(start, end))
    count++
  }
  for (; next; next = added.shift()) parts.push(next.key, next.value)
  return [head(0xa0, count), ...parts]
}

/** Where each field of the body begins, key first, in the canonical order of the keys. */
function startsOfFields({ bytes, bodyStart }: MessageBytes): number[] {
  const starts: number[] = []
  const reader = new CborReader(bytes, bodyStart, bytes.length, 'malformed-frame')
  reader.fields(fieldsMax, (_, start) => {
    starts.push(start)
    reader.skip(false, 2)
  })
  return starts
}

/** The CBOR of a text of less than 64 kB. */
function textValue(text: string): Buffer {
  const utf8 = Buffer.from(text)
  return Buffer.concat([head(0x60, utf8.length), utf8])
}

/** How long the text is, head and all, whose CBOR begins at a position. It was read before, so it is whole. */
function textBytes(bytes: Buffer, at: number): number {
  const low = bytes.readUInt8(at) & 31
  if (low < 24) return 1 + low
  const size = 1 << (low - 24)
  return 1 + size + bytes.readUIntBE(at + 1, size)
}

/** The head of a CBOR item whose argument is below 65,536. */
function head(type: number, argument: number): Buffer {
  if (argument < 24) return Buffer.of(type | argument)
  if (argument < 0x100) return Buffer.of(type | 24, argument)
  return Buffer.of(type | 25, argument >> 8, argument & 0xff)
}
