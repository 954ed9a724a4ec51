/**
 * What the changes of one transaction may have made classify differently. Collected by address while events are applied
 * and settled once at the end, so that a batch costs by what changed and not by how often it did. Where others' records
 * rest on one, that one is noted, and they are found page by page when they are settled.
 */
import type { IndexConnection, Steps } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { addressRange } from './address-range.ts'
import { collections, type StrongRef } from './record-facts.ts'

/** Addresses that are read at a time. */
const pageRows = 500

interface ListedRow {
  uri: string
}

interface AwardedRow {
  uri: string
  badgeUri: string
  badgeCid: string
}

export class Affected {
  readonly activities = new Set<string>()
  readonly #collections = new Set<string>()
  readonly #awards = new Set<string>()
  /** Activities whose listings, and definitions whose awards, are to be settled: address and content. */
  readonly #listed: StrongRef[] = []
  readonly #badges: StrongRef[] = []
  /** Accounts whose definitions all appeared or vanished. */
  readonly #definers = new Set<Did>()
  readonly #sql

  constructor({ sqlite }: IndexConnection) {
    this.#sql = {
      collectionsListing: sqlite.prepare<string[], ListedRow>(
        `select collectionUri as uri from collectionItems
         where activityUri = ? and activityCid = ? and collectionUri > ? order by collectionUri limit ${pageRows}`,
      ),
      awardsOfBadge: sqlite.prepare<string[], ListedRow>(
        `select uri from awards where badgeUri = ? and badgeCid = ? and uri > ? order by uri limit ${pageRows}`,
      ),
      awardsOfBadgesOf: sqlite.prepare<string[], AwardedRow>(
        `select uri, badgeUri, badgeCid from awards
         where (badgeUri, badgeCid, uri) > (?, ?, ?) and badgeUri < ?
         order by badgeUri, badgeCid, uri limit ${pageRows}`,
      ),
      awardsAnsweredBy: sqlite.prepare<string[], { uri: string; awardUri: string }>(
        `select uri, awardUri from responses where uri > ? and uri < ? order by uri limit ${pageRows}`,
      ),
    }
  }

  /**
   * A record changed or went. `cid` is its present or last content and `earlierCid` the one before: references to other
   * contents matched neither before nor after.
   */
  byRecord(record: { uri: string; collection: string; cid: string }, earlierCid: string | undefined): void {
    const { uri, collection } = record
    const contents = earlierCid === undefined ? [record.cid] : [record.cid, earlierCid]
    switch (collection) {
      case collections.activity:
        this.activities.add(uri)
        for (const cid of contents) this.#listed.push({ uri, cid })
        return
      case collections.collection:
        this.#collections.add(uri)
        return
      case collections.award:
        this.#awards.add(uri)
        return
      case collections.definition:
        for (const cid of contents) this.#badges.push({ uri, cid })
    }
  }

  byAward(uri: string): void {
    this.#awards.add(uri)
  }

  /** All records of an account appear or vanish: awards of others that rest on its definitions or responses. */
  *byAccount(did: Did): Steps<void> {
    this.#definers.add(did)
    const [start, end] = addressRange(did)
    for (let after: string | undefined = start; after !== undefined;) {
      const page = this.#sql.awardsAnsweredBy.all(after, end)
      for (const { awardUri } of page) this.#awards.add(awardUri)
      after = page.length < pageRows ? undefined : page.at(-1)?.uri
      yield
    }
  }

  /** The collections to settle. Some may come twice. */
  *collections(): Generator<string> {
    yield* this.#collections
    for (const { uri, cid } of this.#listed) {
      yield* inPages((after) => this.#sql.collectionsListing.all(uri, cid, after))
    }
  }

  /** The awards to settle. Some may come twice. */
  *awards(): Generator<string> {
    yield* this.#awards
    for (const { uri, cid } of this.#badges) {
      yield* inPages((after) => this.#sql.awardsOfBadge.all(uri, cid, after))
    }
    for (const did of this.#definers) {
      const [start, end] = addressRange(did)
      let last: AwardedRow = { uri: '', badgeUri: start, badgeCid: '' }
      for (let isFull = true; isFull;) {
        const page = this.#sql.awardsOfBadgesOf.all(last.badgeUri, last.badgeCid, last.uri, end)
        yield* page.map(({ uri }) => uri)
        isFull = page.length === pageRows
        last = page.at(-1) ?? last
      }
    }
  }

  clear(): void {
    for (const set of [this.activities, this.#collections, this.#awards, this.#definers]) set.clear()
    this.#listed.length = 0
    this.#badges.length = 0
  }
}

function* inPages(read: (after: string) => readonly ListedRow[]): Generator<string> {
  for (let after: string | undefined = ''; after !== undefined;) {
    const page = read(after)
    yield* page.map(({ uri }) => uri)
    after = page.length < pageRows ? undefined : page.at(-1)?.uri
  }
}
