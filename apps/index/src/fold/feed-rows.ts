/**
 * The rows of a feed that follow from one visible record alone: entries of most kinds, follows, organizations. What rests
 * on several records is for `settle`.
 */
import { type Did, type EntryKind, feedCollections, recordUri } from '@tributary/protocol'
import type { IndexRows } from './index-rows.ts'
import { readFollowSubject, type RecordValue } from './record-facts.ts'

export interface FeedPolicy {
  /** Attachments with another `contentType` make no entry; empty for all attachments (feed.md 16, D2). */
  updateContentTypes: readonly string[]
}

/** A stored record as far as classification looks at it. */
export interface StoredRecord {
  uri: string
  did: Did
  collection: string
  cid: string
  feedTime: bigint
}

const kindOf: Readonly<Record<string, EntryKind>> = {
  [feedCollections.evaluation]: 'evaluation.create',
  [feedCollections.measurement]: 'measurement.create',
  [feedCollections.board]: 'hyperboard.create',
  [feedCollections.attachment]: 'update.create',
}

/** Whether the rows that follow from a record of this collection depend on its content. */
export function readsContent(collection: string, { updateContentTypes }: FeedPolicy): boolean {
  if (collection === feedCollections.attachment) return updateContentTypes.length > 0
  return collection === feedCollections.follow
}

/** Makes the rows that follow from a visible record. Its value is looked at where `readsContent` says so. */
export function show(rows: IndexRows, record: StoredRecord, value: RecordValue, policy: FeedPolicy): void {
  const { uri, did, collection, feedTime } = record
  const kind = kindOf[collection]
  if (kind !== undefined) {
    if (kind === 'update.create' && !isUpdate(value, policy)) rows.entries.remove(uri)
    else rows.entries.put({ uri, did, kind, feedTime })
  } else if (collection === feedCollections.follow) {
    const subject = readFollowSubject(value)
    if (subject === undefined) rows.follows.remove(uri)
    else rows.follows.put({ uri, viewer: did, subject })
  } else if (isOrganization(record)) {
    rows.organizations.put({ did })
  }
}

/** Takes away the rows that followed from a record. */
export function conceal(rows: IndexRows, record: Pick<StoredRecord, 'uri' | 'did' | 'collection'>): void {
  if (record.collection === feedCollections.follow) rows.follows.remove(record.uri)
  else if (isOrganization(record)) rows.organizations.remove(record.did)
  else rows.entries.remove(record.uri)
}

function isOrganization({ uri, did, collection }: Pick<StoredRecord, 'uri' | 'did' | 'collection'>): boolean {
  return (
    collection === feedCollections.organization &&
    uri === recordUri(did, feedCollections.organization, 'self')
  )
}

function isUpdate(attachment: RecordValue, { updateContentTypes }: FeedPolicy): boolean {
  const contentType = attachment['contentType']
  return (
    updateContentTypes.length === 0 ||
    (typeof contentType === 'string' && updateContentTypes.includes(contentType))
  )
}
