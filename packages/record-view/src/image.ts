import { BlobRef } from '@atproto/lexicon'
import type { LexRecord } from './record.ts'

/** The forms of an image that a feed shows, and the field of each that it consists of. */
const fields: ReadonlyMap<unknown, string> = new Map([
  ['org.impact.defs#uri', 'uri'],
  ['org.impact.defs#smallImage', 'image'],
  ['org.impact.defs#largeImage', 'image'],
  ['org.impact.defs#smallBlob', 'blob'],
])

/** Bytes of an image as JSON. An address as long as this is likely the image itself, and a page holds fifty of them. */
const imageBytesMax = 2048

/**
 * The image that a value of a record is, without the fields that its form does not know. Undefined for a form that is not
 * among `types`, and for an image over the limit.
 */
export function imageOf(value: unknown, types: readonly string[]): LexRecord | undefined {
  const member = value as LexRecord | undefined // a union value is an object by the lexicon
  const type = types.find((known) => known === member?.['$type'])
  const field = fields.get(type)
  return field === undefined ? undefined : withinLimit({ $type: type, [field]: member?.[field] })
}

/** The avatar of a social profile, which is a blob of its own. */
export function imageOfBlob(blob: unknown): LexRecord | undefined {
  if (!(blob instanceof BlobRef)) return undefined
  return withinLimit({ $type: 'org.impact.defs#smallImage', image: blob })
}

function withinLimit(image: LexRecord): LexRecord | undefined {
  return Buffer.byteLength(JSON.stringify(image)) <= imageBytesMax ? image : undefined
}
