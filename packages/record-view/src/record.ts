/**
 * Records that may be shown: only those that pass their lexicon and the limits of their blobs (feed.md 9.1). Nothing of a
 * record is trusted before this.
 */
import { jsonToLex, type Lexicons } from '@atproto/lexicon'
import { hasBlobsWithinLimits } from './blobs.ts'

/** A record that passed its lexicon. Blobs are BlobRef and CID links are CID objects, as the lexicon library has them. */
export type LexRecord = Readonly<Record<string, unknown>>

/** Reads a record of a collection, as JSON has it. Undefined when it must not be shown. */
export type RecordReader = (collection: string, value: unknown) => LexRecord | undefined

/** Values in a record, at all levels. Looking at more would hold up others, and no record has a use for them. */
const valuesMax = 50_000
/** What objects count for that the lexicon library looks at closely: to see that they are no blob, or no link, costs so much. */
const [blobValues, linkValues] = [20, 10]
/**
 * The library counts the graphemes of a text that has more characters than it may have graphemes: 64 or more in lists. So many
 * characters take as long as one value. A plain text fails then, which ends the check, so that only one is counted. Texts
 * above the last bound are never counted, because they have too many bytes wherever graphemes are bounded.
 */
const charsPerValue = { plain: 10, other: 3 }
const [shortChars, shortPlainChars, countedChars] = [64, 10_000, 250_000]
const plainText = /^[ -~\n]*$/

export function createRecordReader(lexicons: Lexicons): RecordReader {
  return (collection, value) => {
    if (!isObject(value) || value['$type'] !== collection || valuesLeft(value, valuesMax) < 0)
      return undefined
    const record = toLex(value)
    if (!isObject(record)) return undefined
    if (!passesLexicon(lexicons, collection, record)) return undefined
    return hasBlobsWithinLimits(collection, record) ? record : undefined
  }
}

/** Throws nothing: a link that is no CID makes the record invalid, it is not an error of ours. */
function toLex(value: Readonly<Record<string, unknown>>): unknown {
  try {
    return jsonToLex(value)
  } catch {
    return undefined
  }
}

/** The library throws, rather than fails, on a `$type` with two `#`, which an author may well write. */
function passesLexicon(lexicons: Lexicons, collection: string, record: object): boolean {
  try {
    return lexicons.validate(collection, record).success
  } catch {
    return false
  }
}

function isObject(value: unknown): value is LexRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** How many values an object or list counts for, without those in it. */
function costOf(value: object): number {
  const { $type, cid, mimeType, $link, $bytes } = value as LexRecord // a list has none of them
  if ($type === 'blob' || (typeof cid === 'string' && typeof mimeType === 'string')) return blobValues
  return $link === undefined && $bytes === undefined && cid === undefined ? 1 : linkValues
}

function costOfText(text: string): number {
  const chars = text.length
  if (chars <= shortChars || chars > countedChars) return 1
  if (!plainText.test(text)) return 1 + Math.ceil(chars / charsPerValue.other)
  return chars <= shortPlainChars ? 1 : 1 + Math.ceil(chars / charsPerValue.plain)
}

/** How many of the values that may be looked at are left after those in `value`; below zero when they do not suffice. */
function valuesLeft(value: unknown, left: number): number {
  if (typeof value === 'string') return left - costOfText(value)
  if (typeof value !== 'object' || value === null) return left - 1
  let rest = left - costOf(value)
  const inner = Object.values(value)
  if (inner.length > rest) return -1
  for (const each of inner) {
    rest = valuesLeft(each, rest)
    if (rest < 0) return rest
  }
  return rest
}
