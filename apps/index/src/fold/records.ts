/**
 * Current records, and the tables of what they state by themselves: views, project items, awards and responses. Every
 * change notes what else may now be classified differently; nothing is classified here.
 */
import type { IndexConnection, Steps } from '@tributary/index-store'
import { type Did, recordUri } from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import { addressRange } from './address-range.ts'
import type { Affected } from './affected.ts'
import {
  collections,
  readAward,
  readOwnActivities,
  readResponse,
  type RecordValue,
  type StrongRef,
} from './record-facts.ts'
import { removalOfRange, removeInSteps } from './removal.ts'

/** A record as an event brings it. */
export interface IncomingRecord {
  did: Did
  collection: string
  rkey: string
  rev: string
  cid: string
  value: RecordValue
  /** The record's `createdAt` when valid. */
  createdAt: bigint | undefined
  /** When the event was received. */
  receivedAt: bigint
}

/** A stored record as far as classification looks at it. */
export interface StoredRecord {
  uri: string
  did: Did
  collection: string
  cid: string
  feedTime: bigint
}

/** A stored record with its value. */
export type ReadRecord = StoredRecord & { value: RecordValue }

/** How long the places of records that a sync marker took away are kept for their return, in microseconds. */
export const placesKeptMicros = 7n * 86_400_000_000n
/** Records read or moved at a time: one may have a megabyte. */
const pageRows = 50
/** Addresses read at a time where most are passed over. */
const addressesPerPage = 2000

interface Place {
  cid: string
  indexedAt: bigint
  createdAt: bigint | null
}

export class Records {
  readonly #sql
  readonly #affected: Affected
  readonly #views: RecordViews

  constructor({ sqlite }: IndexConnection, affected: Affected, views: RecordViews) {
    this.#affected = affected
    this.#views = views
    this.#sql = {
      place: sqlite.prepare<[string], Place>('select cid, indexedAt, createdAt from records where uri = ?'),
      put: sqlite.prepare<(string | bigint | null)[]>(
        `insert into records (uri, did, collection, rkey, cid, rev, json, indexedAt, createdAt, feedTime)
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         on conflict (uri) do update set cid = excluded.cid, rev = excluded.rev, json = excluded.json,
           indexedAt = excluded.indexedAt, createdAt = excluded.createdAt, feedTime = excluded.feedTime`,
      ),
      remove: sqlite.prepare<[string], { cid: string }>('delete from records where uri = ? returning cid'),
      supersede: sqlite
        .prepare<[bigint, string, string], string>(
          `insert or replace into superseded (uri, did, cid, indexedAt, createdAt, supersededAt)
           select uri, did, cid, indexedAt, createdAt, ? from records where uri > ? and uri < ?
           order by uri limit ${pageRows} returning uri`,
        )
        .pluck(),
      takeBack: sqlite.prepare<[string], Place & { supersededAt: bigint }>(
        'delete from superseded where uri = ? returning cid, indexedAt, createdAt, supersededAt',
      ),
      items: sqlite.prepare<[string], StrongRef>(
        'select activityUri as uri, activityCid as cid from collectionItems where collectionUri = ?',
      ),
      addItem: sqlite.prepare<[string, string, string]>(
        'insert or ignore into collectionItems (collectionUri, activityUri, activityCid) values (?, ?, ?)',
      ),
      removeItems: sqlite.prepare<[string]>('delete from collectionItems where collectionUri = ?'),
      putAward: sqlite.prepare<string[]>(
        'insert or replace into awards (uri, issuer, subject, badgeUri, badgeCid) values (?, ?, ?, ?, ?)',
      ),
      removeAward: sqlite.prepare<[string]>('delete from awards where uri = ?'),
      putResponse: sqlite.prepare<(string | bigint)[]>(
        'insert or replace into responses (uri, did, awardUri, awardCid, rejected) values (?, ?, ?, ?, ?)',
      ),
      removeResponse: sqlite
        .prepare<[string], string>('delete from responses where uri = ? returning awardUri')
        .pluck(),
      putView: sqlite.prepare<string[]>('insert or replace into views (uri, did, view) values (?, ?, ?)'),
      removeView: sqlite.prepare<[string]>('delete from views where uri = ?'),
      clear: ['records', 'views', 'awards', 'responses'].map((table) => removalOfRange(sqlite, table, 'uri')),
      clearItems: removalOfRange(sqlite, 'collectionItems', 'collectionUri'),
      forgetPlaces: removalOfRange(sqlite, 'superseded', 'uri'),
      page: sqlite.prepare<[string, string], StoredRecord & { json: string }>(
        `select uri, did, collection, cid, feedTime, json from records
         where uri > ? and uri < ? order by uri limit ${pageRows}`,
      ),
      addresses: sqlite.prepare<[string], { uri: string; collection: string }>(
        `select uri, collection from records where uri > ? order by uri limit ${addressesPerPage}`,
      ),
      record: sqlite.prepare<[string], StoredRecord & { json: string }>(
        'select uri, did, collection, cid, feedTime, json from records where uri = ?',
      ),
    }
  }

  /**
   * Stores a created or updated record. Undefined when this very content is already stored: nothing changes then.
   * `createdAt` is the first valid one of the record's life; `indexedAt` is when its present content came (feed.md 7).
   */
  put(record: IncomingRecord): StoredRecord | undefined {
    const { did, collection, rkey, cid } = record
    const uri = recordUri(did, collection, rkey)
    const stored = this.#sql.place.get(uri)
    if (stored?.cid === cid) return undefined
    const earlier = stored ?? this.#takeBack(uri, record.receivedAt)
    const createdAt = earlier?.createdAt ?? record.createdAt ?? null
    const indexedAt = earlier?.cid === cid ? earlier.indexedAt : record.receivedAt
    const feedTime = createdAt ?? indexedAt
    const json = JSON.stringify(record.value)
    this.#sql.put.run(uri, did, collection, rkey, cid, record.rev, json, indexedAt, createdAt, feedTime)
    const changed = { uri, did, collection, cid, feedTime }
    this.#state(changed, record.value)
    this.#affected.byRecord(changed, stored?.cid)
    return changed
  }

  /** The place of a record that a marker took away, if it comes back in time, by the stream's clock. */
  #takeBack(uri: string, receivedAt: bigint): Place | undefined {
    const place = this.#sql.takeBack.get(uri)
    return place && receivedAt - place.supersededAt <= placesKeptMicros ? place : undefined
  }

  /** Removes a deleted record. Undefined when there was none. */
  remove(
    did: Did,
    collection: string,
    rkey: string,
  ): { uri: string; did: Did; collection: string } | undefined {
    const uri = recordUri(did, collection, rkey)
    this.#sql.takeBack.get(uri)
    const removed = this.#sql.remove.get(uri)
    if (removed === undefined) return undefined
    this.#state({ uri, did, collection }, undefined)
    this.#affected.byRecord({ uri, collection, cid: removed.cid }, undefined)
    return { uri, did, collection }
  }

  /** Takes away every record of an account, for good. */
  *purge(did: Did): Steps<void> {
    yield* this.#affected.byAccount(did)
    yield* this.#clear(did)
    yield* removeInSteps(this.#sql.forgetPlaces, addressRange(did))
  }

  /**
   * Takes away every record of an account because what follows in the stream is its whole present repository. A record
   * that comes back takes up its old place in the order of a feed.
   */
  *supersede(did: Did, at: bigint): Steps<void> {
    yield* this.#affected.byAccount(did)
    const [start, end] = addressRange(did)
    for (let after: string | undefined = start; after !== undefined;) {
      const page = this.#sql.supersede.all(at, after, end)
      after = page.length < pageRows ? undefined : page.reduce((last, uri) => (uri > last ? uri : last))
      yield
    }
    yield* this.#clear(did)
  }

  /** Every record of an account with its value, in pages, so that the caller may write in between. */
  *of(did: Did): Generator<ReadRecord> {
    const [start, end] = addressRange(did)
    for (let after = start; ;) {
      const page = this.#sql.page.all(after, end)
      yield* page.map(readStored)
      const last = page.at(-1)
      if (last === undefined || page.length < pageRows) return
      after = last.uri
    }
  }

  /**
   * The records with a view or without one among the next ones of all accounts, by address. `at` is where the next page
   * goes on; undefined at the end.
   */
  page(after: string): { at: string | undefined; records: Iterable<ReadRecord> } {
    const page = this.#sql.addresses.all(after)
    const find = this.#sql.record
    const views = this.#views.collections
    function* records(): Generator<ReadRecord> {
      for (const { uri } of page.filter(({ collection }) => views.has(collection))) {
        const found = find.get(uri)
        if (found !== undefined) yield readStored(found)
      }
    }
    return { at: page.at(-1)?.uri, records: records() }
  }

  /** Prepares what a feed shows of a record; `value` is undefined when it is gone. */
  prepare(
    { uri, did, collection }: Pick<StoredRecord, 'uri' | 'did' | 'collection'>,
    value?: RecordValue,
  ): void {
    if (!this.#views.collections.has(collection)) return
    const view = this.#views.of(collection, value)
    if (view === undefined) this.#sql.removeView.run(uri)
    else this.#sql.putView.run(uri, did, view)
  }

  *#clear(did: Did): Steps<void> {
    const range = addressRange(did)
    for (const statement of this.#sql.clear) yield* removeInSteps(statement, range)
    yield* removeInSteps(this.#sql.clearItems, range)
  }

  /** Replaces what a record states; `value` is undefined when it is gone. */
  #state(
    { uri, did, collection }: { uri: string; did: Did; collection: string },
    value: RecordValue | undefined,
  ): void {
    this.prepare({ uri, did, collection }, value)
    switch (collection) {
      case collections.collection: {
        for (const { uri: activity } of this.#sql.items.all(uri)) this.#affected.activities.add(activity)
        this.#sql.removeItems.run(uri)
        for (const item of value ? readOwnActivities(did, value) : []) {
          this.#sql.addItem.run(uri, item.uri, item.cid)
          this.#affected.activities.add(item.uri)
        }
        return
      }
      case collections.award: {
        const award = value && readAward(did, value)
        if (award) this.#sql.putAward.run(uri, did, award.subject, award.badge.uri, award.badge.cid)
        else this.#sql.removeAward.run(uri)
        return
      }
      case collections.response: {
        const before = this.#sql.removeResponse.get(uri)
        if (before !== undefined) this.#affected.byAward(before)
        const response = value && readResponse(value)
        if (!response) return
        this.#sql.putResponse.run(
          uri,
          did,
          response.award.uri,
          response.award.cid,
          response.isRejected ? 1n : 0n,
        )
        this.#affected.byAward(response.award.uri)
      }
    }
  }
}

function readStored({ json, ...record }: StoredRecord & { json: string }): ReadRecord {
  return { ...record, value: JSON.parse(json) as RecordValue } // put() wrote it from an object
}
