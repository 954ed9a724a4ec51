/** Sizes and types of blobs (feed.md 9.1). Lexicon libraries check neither. */
import { BlobRef } from '@atproto/lexicon'
import { feedCollections } from '@tributary/protocol'

interface BlobLimit {
  readonly bytesMax: number
  /** Absent when any type will do. */
  readonly mimeTypes?: readonly string[]
}

const imageTypes = ['image/jpeg', 'image/jpg', 'image/png', 'image/webp']

/** The union members that hold a blob: the field it is in and what it may be. */
const holders: ReadonlyMap<unknown, BlobLimit & { readonly field: string }> = new Map([
  ['org.impact.defs#smallImage', { field: 'image', bytesMax: 5_242_880, mimeTypes: imageTypes }],
  ['org.impact.defs#largeImage', { field: 'image', bytesMax: 10_485_760, mimeTypes: imageTypes }],
  ['org.impact.defs#smallBlob', { field: 'blob', bytesMax: 10_485_760 }],
  [
    'org.impact.defs#smallVideo',
    { field: 'video', bytesMax: 20_971_520, mimeTypes: ['video/mp4', 'video/webm'] },
  ],
])

/** Signs of the longest CID that the library reads. It writes base 32, which takes more of them than other forms. */
const cidCharsMax = 128

const socialImage: BlobLimit = { bytesMax: 1_000_000, mimeTypes: ['image/png', 'image/jpeg'] }

type Fields = Readonly<Record<string, unknown>>

/** Where each collection keeps blobs that must be within their limits: union values, and blobs of their own. */
const blobsOf: Readonly<Record<string, (record: Fields) => boolean>> = {
  [feedCollections.activity]: (record) => isUnionWithin(record['image']),
  [feedCollections.collection]: (record) =>
    isUnionWithin(record['avatar']) && isUnionWithin(record['banner']),
  [feedCollections.evaluation]: (record) => fieldsOf(record['content']).every(isUnionWithin),
  [feedCollections.attachment]: (record) => fieldsOf(record['content']).every(isUnionWithin),
  [feedCollections.board]: (record) =>
    isUnionWithin((record['config'] as Fields | undefined)?.['backgroundImage']) && // an object by the lexicon
    fieldsOf(record['contributorConfigs']).every(
      ({ image, hoverImage, video }) =>
        isUnionWithin(image) && isUnionWithin(hoverImage) && isUnionWithin(video),
    ),
  [feedCollections.profile]: (record) => isUnionWithin(record['avatar']) && isUnionWithin(record['banner']),
  [feedCollections.socialProfile]: (record) =>
    isBlobWithin(record['avatar'], socialImage) && isBlobWithin(record['banner'], socialImage),
}

/** True when every known blob of a record that passed its lexicon is within its limits. */
export function hasBlobsWithinLimits(collection: string, record: Fields): boolean {
  return blobsOf[collection]?.(record) ?? true
}

/** Absent values and union members that hold no known blob are not checked. */
function isUnionWithin(value: unknown): boolean {
  if (value === undefined) return true
  const member = value as Fields // a union value is an object by the lexicon
  const holder = holders.get(member['$type'])
  return holder === undefined || isBlobWithin(member[holder.field], holder)
}

/** The old form of a blob, without `ref`, comes out of the library with a size of -1. */
function isBlobWithin(blob: unknown, { bytesMax, mimeTypes }: BlobLimit): boolean {
  if (blob === undefined) return true
  if (!(blob instanceof BlobRef)) return false
  const { size, mimeType } = blob
  // The library takes objects of certain fields for a CID, and leaves them as they are.
  if (Object.getPrototypeOf(blob.ref) === Object.prototype) return false
  if (blob.ref.toString().length > cidCharsMax) return false
  if (!Number.isInteger(size) || size < 0 || size > bytesMax) return false
  return mimeTypes === undefined || mimeTypes.includes(mimeType)
}

/** The objects of a list that passed its lexicon; none when it is absent. */
function fieldsOf(list: unknown): readonly Fields[] {
  return (list ?? []) as readonly Fields[]
}
