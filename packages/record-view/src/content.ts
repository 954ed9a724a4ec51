/** What an entry says, per collection (feed.md 9.2 and 9.3), from a record that passed its lexicon. */
import { BlobRef } from '@atproto/lexicon'
import { feedCollections, isDatetime } from '@tributary/protocol'
import { imageOf } from './image.ts'
import type { LexRecord } from './record.ts'

/** `content` of a view. Fields that the record lacks are left out; times stand as their author wrote them. */
type Content = Readonly<Record<string, unknown>>

export const entryCollections: readonly string[] = [
  feedCollections.activity,
  feedCollections.collection,
  feedCollections.evaluation,
  feedCollections.measurement,
  feedCollections.attachment,
  feedCollections.award,
  feedCollections.board,
]

const times = ['createdAt', 'startDate', 'endDate']

/**
 * The content of an entry. Undefined for other collections, for an award that endorses no account, and with a time that is
 * none: the lexicon library takes times without a zone or with any text after it, and clients refuse a page with one.
 */
export function contentOf(collection: string, record: LexRecord): Content | undefined {
  const content = fieldsOf(collection, record)
  const isTime = (value: unknown): boolean => value === undefined || isDatetime(value)
  return times.every((name) => isTime(content?.[name])) ? content : undefined
}

function fieldsOf(collection: string, record: LexRecord): Content | undefined {
  switch (collection) {
    case feedCollections.activity:
      return {
        $type: 'org.impact.feed.defs#activityView',
        ...pick(record, ['title', 'shortDescription', 'createdAt', 'startDate', 'endDate']),
        ...image(imageOf(record['image'], ['org.impact.defs#uri', 'org.impact.defs#smallImage'])),
        locationCount: listOf(record['locations']).length,
      }
    case feedCollections.collection:
      return {
        $type: 'org.impact.feed.defs#collectionView',
        ...(record['type'] === undefined ? {} : { collectionType: record['type'] }),
        ...pick(record, ['title', 'shortDescription', 'createdAt']),
        ...image(collectionImage(record)),
        itemCount: listOf(record['items']).length,
      }
    case feedCollections.evaluation:
      return {
        $type: 'org.impact.feed.defs#evaluationView',
        ...pick(record, ['summary', 'createdAt']),
        ...target(record['subject']),
      }
    case feedCollections.measurement:
      return {
        $type: 'org.impact.feed.defs#measurementView',
        ...pick(record, ['metric', 'createdAt']),
        ...target(listOf(record['subjects'])[0]),
      }
    case feedCollections.attachment:
      return {
        $type: 'org.impact.feed.defs#updateView',
        ...pick(record, ['title', 'shortDescription', 'createdAt']),
        ...image(imageOf(listOf(record['content']).find(isImageBlob), ['org.impact.defs#smallBlob'])),
        ...target(listOf(record['subjects'])[0]),
      }
    case feedCollections.award: {
      const subject = record['subject'] as LexRecord // required by the lexicon
      if (subject['$type'] !== 'app.attested.defs#did') return undefined
      return {
        $type: 'org.impact.feed.defs#endorsementView',
        subject: { did: subject['did'] },
        ...pick(record, ['createdAt']),
      }
    }
    case feedCollections.board:
      return { $type: 'org.impact.feed.defs#hyperboardView', ...pick(record, ['createdAt']) }
    default:
      return undefined
  }
}

function collectionImage(record: LexRecord): LexRecord | undefined {
  return (
    imageOf(record['avatar'], ['org.impact.defs#uri', 'org.impact.defs#smallImage']) ??
    imageOf(record['banner'], ['org.impact.defs#uri', 'org.impact.defs#largeImage'])
  )
}

function isImageBlob(value: LexRecord): boolean {
  const blob = value['$type'] === 'org.impact.defs#smallBlob' ? value['blob'] : undefined
  return blob instanceof BlobRef && blob.mimeType.startsWith('image/')
}

function image(value: LexRecord | undefined): Content {
  return value ? { image: value } : {}
}

/** The strong reference of an entry, without its `$type`. The record it names is not read. */
function target(reference: unknown): Content {
  if (reference === undefined) return {}
  const { uri, cid } = reference as { readonly uri: string; readonly cid: string } // by the lexicon
  return { target: { uri, cid } }
}

function listOf(value: unknown): readonly LexRecord[] {
  return (value ?? []) as readonly LexRecord[] // a list of objects by the lexicon
}

function pick(record: LexRecord, fields: readonly string[]): Content {
  return Object.fromEntries(
    fields.filter((name) => record[name] !== undefined).map((name) => [name, record[name]]),
  )
}
