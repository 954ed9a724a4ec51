/** What an entry says, per kind (feed.md 9.2 and 9.3), from a record that passed its lexicon. */
import { BlobRef } from '@atproto/lexicon'
import type { EntryKind } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import type { ActorSummary } from './actor.ts'
import { imageOf } from './image.ts'
import type { LexRecord } from './record.ts'

/** `content` of a view. Fields that the record lacks are left out; times stand as their author wrote them. */
export type Content = Readonly<Record<string, unknown>>

type Summarize = (did: Did) => ActorSummary

/** The account that an entry endorses; undefined for every other kind, and for an award that endorses no account. */
export function endorsedAccount(kind: EntryKind, record: LexRecord): Did | undefined {
  if (kind !== 'endorsement.award') return undefined
  const subject = record['subject'] as LexRecord // required by the lexicon
  return subject['$type'] === 'app.attested.defs#did' ? (subject['did'] as Did) : undefined // a DID by the lexicon
}

/** The content of an entry. `summarize` is asked only for the account of an endorsement. */
export function contentOf(kind: EntryKind, record: LexRecord, summarize: Summarize): Content {
  switch (kind) {
    case 'cert.create':
      return {
        $type: 'org.impact.feed.defs#activityView',
        ...pick(record, ['title', 'shortDescription', 'createdAt', 'startDate', 'endDate']),
        ...image(imageOf(record['image'], ['org.impact.defs#uri', 'org.impact.defs#smallImage'])),
        locationCount: listOf(record['locations']).length,
      }
    case 'collection.create':
    case 'project.created_with_cert':
      return {
        $type: 'org.impact.feed.defs#collectionView',
        ...(record['type'] === undefined ? {} : { collectionType: record['type'] }),
        ...pick(record, ['title', 'shortDescription', 'createdAt']),
        ...image(collectionImage(record)),
        itemCount: listOf(record['items']).length,
      }
    case 'evaluation.create':
      return {
        $type: 'org.impact.feed.defs#evaluationView',
        ...pick(record, ['summary', 'createdAt']),
        ...target(record['subject']),
      }
    case 'measurement.create':
      return {
        $type: 'org.impact.feed.defs#measurementView',
        ...pick(record, ['metric', 'createdAt']),
        ...target(listOf(record['subjects'])[0]),
      }
    case 'update.create':
      return {
        $type: 'org.impact.feed.defs#updateView',
        ...pick(record, ['title', 'shortDescription', 'createdAt']),
        ...image(imageOf(listOf(record['content']).find(isImageBlob), ['org.impact.defs#smallBlob'])),
        ...target(listOf(record['subjects'])[0]),
      }
    case 'endorsement.award':
      return {
        $type: 'org.impact.feed.defs#endorsementView',
        subject: summarize((record['subject'] as LexRecord)['did'] as Did), // see endorsedAccount
        ...pick(record, ['createdAt']),
      }
    case 'hyperboard.create':
      return { $type: 'org.impact.feed.defs#hyperboardView', ...pick(record, ['createdAt']) }
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
