/**
 * Current records, and what they state by themselves: views, project items, awards and responses. Every change notes what
 * else may now be classified differently; nothing is classified here.
 */
import type { RowOf } from '@tributary/index-store'
import { type Did, feedCollections, recordUri } from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import type { Place } from './earlier-places.ts'
import type { StoredRecord } from './feed-rows.ts'
import type { IndexRows } from './index-rows.ts'
import { readAward, readOwnActivities, readResponse, type RecordValue } from './record-facts.ts'

/** A record as an event brings it. */
export interface IncomingRecord {
  did: Did
  collection: string
  rkey: string
  cid: string
  value: RecordValue
  /** The record's `createdAt` when valid. */
  createdAt: bigint | undefined
  /** When the event was received. */
  receivedAt: bigint
}

/** A record that is gone has no value. */
interface Statement {
  uri: string
  did: Did
  collection: string
  value: RecordValue | undefined
}

/** How long the places of records that a sync marker took away are kept for their return, in microseconds. */
export const placesKeptMicros = 7n * 86_400_000_000n

/**
 * Stores a created or updated record. Undefined when this very content is already stored: nothing changes then.
 * `createdAt` is the first valid one of the record's life; `indexedAt` is when its present content came (feed.md 7).
 */
export function putRecord(
  rows: IndexRows,
  record: IncomingRecord,
  views: RecordViews,
): StoredRecord | undefined {
  const { did, collection, rkey, cid, value } = record
  const uri = recordUri(did, collection, rkey)
  const stored = rows.records.get(uri)
  const earlier = rows.earlierPlace(uri)
  if (stored?.cid === cid && !hasMoved(stored, earlier)) return undefined
  const returned = stored === undefined ? takeBack(rows, uri, record.receivedAt) : undefined
  const known = [earlier, stored, returned].filter((place) => place !== undefined)
  const createdAt = known.find((place) => place.createdAt !== null)?.createdAt ?? record.createdAt ?? null
  const indexedAt = known.find((place) => place.cid === cid)?.indexedAt ?? record.receivedAt
  const feedTime = createdAt ?? indexedAt
  const json = JSON.stringify(value)
  rows.records.put({ uri, did, collection, cid, json, indexedAt, createdAt, feedTime })
  rows.addWaiting(json.length)
  state(rows, { uri, did, collection, value, feedTime, indexedAt }, views)
  const changed = { uri, did, collection, cid, feedTime }
  rows.affected.byRecord(changed, stored?.cid)
  return changed
}

/** Whether a record has another place in an earlier index: the archive no longer has what it was in between. */
function hasMoved(stored: Place, earlier: Place | undefined): boolean {
  if (earlier?.cid !== stored.cid) return false
  return earlier.indexedAt !== stored.indexedAt || earlier.createdAt !== stored.createdAt
}

/** Removes a deleted record. False when there was none. */
export function removeRecord(
  rows: IndexRows,
  { uri, did, collection }: Pick<StoredRecord, 'uri' | 'did' | 'collection'>,
  views: RecordViews,
): boolean {
  if (rows.superseded.get(uri)) rows.superseded.remove(uri)
  const removed = rows.records.get(uri)
  if (removed === undefined) return false
  rows.records.remove(uri)
  state(rows, { uri, did, collection, value: undefined, feedTime: 0n, indexedAt: 0n }, views)
  rows.affected.byRecord({ uri, collection, cid: removed.cid }, undefined)
  return true
}

/** Prepares what a feed shows of a record. */
export function prepareView(rows: IndexRows, statement: Statement, views: RecordViews): void {
  const { uri, did, collection, value } = statement
  if (!views.collections.has(collection)) return
  const view = views.of(collection, value)
  if (view === undefined) rows.views.remove(uri)
  else rows.views.put({ uri, did, view })
}

/** The place of a record that a marker took away, if it comes back in time, by the stream's clock. */
function takeBack(rows: IndexRows, uri: string, receivedAt: bigint): Place | undefined {
  const place = rows.superseded.get(uri)
  if (place === undefined) return undefined
  rows.superseded.remove(uri)
  return receivedAt - place.supersededAt <= placesKeptMicros ? place : undefined
}

/** Replaces what a record states. */
function state(
  rows: IndexRows,
  statement: Statement & Pick<RowOf<'records'>, 'feedTime' | 'indexedAt'>,
  views: RecordViews,
): void {
  prepareView(rows, statement, views)
  const { uri, did, collection, value, feedTime, indexedAt } = statement
  switch (collection) {
    case feedCollections.collection: {
      rows.setItems(uri, { items: value ? readOwnActivities(did, value) : [], feedTime })
      return
    }
    case feedCollections.award: {
      const award = value && readAward(did, value)
      if (!award) rows.awards.remove(uri)
      else {
        const { subject, badge } = award
        rows.awards.put({ uri, issuer: did, subject, badgeUri: badge.uri, badgeCid: badge.cid })
      }
      return
    }
    case feedCollections.response: {
      const before = rows.responses.get(uri)
      if (before !== undefined) rows.affected.byAward(before.awardUri)
      const response = value && readResponse(value)
      if (!response) return rows.responses.remove(uri)
      const { award, isRejected } = response
      rows.responses.put({
        uri,
        did,
        awardUri: award.uri,
        awardCid: award.cid,
        rejected: isRejected ? 1n : 0n,
        feedTime,
        indexedAt,
      })
      rows.affected.byAward(award.uri)
    }
  }
}
