/**
 * Valid records of every collection that the services know: the watched ones, the social profile
 * and the board. They start from the shared record vectors, so a record made here is valid by the
 * lexicon of its collection as long as the fields put in are.
 */
import { readFileSync } from 'node:fs'
import { feedExtraCollections, watchedCollections } from '@tributary/protocol'

export type JsonRecord = Record<string, unknown>

/** Records of one collection that must be accepted and refused by its lexicon. */
export interface RecordVectors {
  valid: JsonRecord[]
  invalid: { record: JsonRecord; why: string }[]
}

const vectorsFolder = new URL('../vectors/records/', import.meta.url)

/** The 23 collections that `sampleRecord` knows, sorted. */
export const sampleCollections: readonly string[] = [
  ...watchedCollections,
  ...feedExtraCollections,
].toSorted()

/** Collections with exactly one record per account, under the key `self`. */
export const singleRecordCollections: readonly string[] = [
  'app.attested.actor.organization',
  'app.attested.actor.profile',
  'app.social.actor.profile',
]

/** Per collection its field of free text and how many characters fit, for records of any size. */
export const freeTextFields: Readonly<Record<string, { field: string; charsMax: number }>> = {
  'app.attested.actor.profile': { field: 'description', charsMax: 256 },
  'app.attested.badge.award': { field: 'note', charsMax: 500 },
  'app.attested.badge.definition': { field: 'description', charsMax: 500 },
  'app.attested.location': { field: 'description', charsMax: 500 },
  'app.attested.signature.proof': { field: 'note', charsMax: 500 },
  'app.social.actor.profile': { field: 'description', charsMax: 256 },
  'org.impact.claim.activity': { field: 'shortDescription', charsMax: 300 },
  'org.impact.claim.contribution': { field: 'contributionDescription', charsMax: 1000 },
  'org.impact.claim.rights': { field: 'rightsDescription', charsMax: 1000 },
  'org.impact.collection': { field: 'shortDescription', charsMax: 300 },
  'org.impact.context.acknowledgement': { field: 'comment', charsMax: 1000 },
  'org.impact.context.attachment': { field: 'shortDescription', charsMax: 300 },
  'org.impact.context.evaluation': { field: 'summary', charsMax: 1000 },
  'org.impact.context.measurement': { field: 'comment', charsMax: 300 },
  'org.impact.funding.receipt': { field: 'notes', charsMax: 500 },
  'org.impact.workscope.tag': { field: 'description', charsMax: 1000 },
}

const loaded = new Map<string, RecordVectors>()

/** The shared vectors of one collection. Throws `RangeError` for one that is not a sample collection. */
export function recordVectors(collection: string): RecordVectors {
  if (!sampleCollections.includes(collection)) throw new RangeError(`no vectors of ${collection}`)
  let vectors = loaded.get(collection)
  if (vectors === undefined) {
    const text = readFileSync(new URL(`${collection}.json`, vectorsFolder), 'utf8')
    vectors = JSON.parse(text) as RecordVectors // reason: a file of this package, in this shape.
    loaded.set(collection, vectors)
  }
  return vectors
}

/**
 * A valid record of `collection`, created now unless `fields` says otherwise. `fields` replace
 * fields of the smallest valid record; the caller keeps them valid (or not, on purpose).
 */
export function sampleRecord(collection: string, fields: JsonRecord = {}): JsonRecord {
  const [smallest = {}] = recordVectors(collection).valid
  return { ...structuredClone(smallest), createdAt: new Date().toISOString(), ...fields }
}

/** The key that a record of `collection` must have, or undefined when any TID will do. */
export function sampleRkey(collection: string): 'self' | undefined {
  return singleRecordCollections.includes(collection) ? 'self' : undefined
}
