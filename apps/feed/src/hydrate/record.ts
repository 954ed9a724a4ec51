/**
 * Stored records as the feed shows them: only those that pass their lexicon and the limits of their blobs
 * (feed.md 9.1). The index keeps every record as it came, so nothing of it is trusted before this.
 */
import { jsonStringToLex, type Lexicons } from '@atproto/lexicon'
import { hasBlobsWithinLimits } from './blobs.ts'

/** A record that passed its lexicon. Blobs are BlobRef and CID links are CID objects, as the lexicon library has them. */
export type LexRecord = Readonly<Record<string, unknown>>

/** Reads a stored record of a collection. Undefined when it must not be shown. */
export type RecordReader = (collection: string, json: string) => LexRecord | undefined

export function createRecordReader(lexicons: Lexicons): RecordReader {
  return (collection, json) => {
    const record = toLex(json)
    if (!isObject(record) || record['$type'] !== collection) return undefined
    if (!passesLexicon(lexicons, collection, record)) return undefined
    return hasBlobsWithinLimits(collection, record) ? record : undefined
  }
}

/** Throws nothing: a link that is no CID makes the record invalid, it is not an error of ours. */
function toLex(json: string): unknown {
  try {
    return jsonStringToLex(json)
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
