/**
 * What a feed shows of a record, and whether it shows the record at all (feed.md sections 9 and 10). The index prepares
 * this when a record changes, so that a page costs by what it shows and not by what its authors put into their records.
 */
import { createHash } from 'node:crypto'
import type { Lexicons } from '@atproto/lexicon'
import { appearanceOf, profileCollections } from './appearance.ts'
import { contentOf, entryCollections } from './content.ts'
import { createRecordReader } from './record.ts'

/** Raised when the same record gives another view. */
const formVersion = 4
/** Bytes of a view as JSON: what a page can hold for one entry. Records that are not made for it stay far below. */
const viewBytesMax = 10_000

export interface RecordViews {
  /** Another text when views that were made with another version are to be made again. */
  readonly version: string
  /** The collections whose records have views: those of entries and of profiles. */
  readonly collections: ReadonlySet<string>
  /**
   * The view of a record as JSON, in the form that the feed's lexicon has: the content of an entry, with nothing but the
   * DID of an endorsed account, or the name and avatar of a profile. Undefined when the record must not be shown: it
   * breaks its lexicon or the limits of its blobs, it would show a time that is none, its view is over 10,000 bytes, or it
   * has more than 50,000 values, of which a blob counts for twenty, a link for ten, and three characters of a long text
   * for one. A profile that says nothing at all has none either.
   */
  of(collection: string, record: unknown): string | undefined
}

export function createRecordViews(lexicons: Lexicons): RecordViews {
  const readRecord = createRecordReader(lexicons)
  const collections = new Set<string>([...entryCollections, ...profileCollections])
  return {
    version: `${formVersion} ${createHash('sha256')
      .update(JSON.stringify([...lexicons]))
      .digest('hex')}`,
    collections,
    of(collection, value) {
      if (!collections.has(collection)) return undefined
      const record = readRecord(collection, value)
      const view = record && (contentOf(collection, record) ?? appearanceOf(collection, record))
      const json = view && JSON.stringify(view)
      return json !== undefined && Buffer.byteLength(json) <= viewBytesMax ? json : undefined
    },
  }
}
