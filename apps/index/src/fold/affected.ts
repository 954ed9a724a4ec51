/**
 * What the changes of one transaction may have made classify differently. Collected by address while events are applied
 * and settled once at the end, so that a batch costs by what changed and not by how often it did.
 */
import type { IndexConnection } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { addressRange } from './address-range.ts'
import { collections } from './record-facts.ts'

export class Affected {
  readonly activities = new Set<string>()
  readonly collections = new Set<string>()
  readonly awards = new Set<string>()
  readonly #sql

  constructor({ sqlite }: IndexConnection) {
    this.#sql = {
      collectionsListing: sqlite
        .prepare<[string, string], string>(
          'select collectionUri from collectionItems where activityUri = ? and activityCid = ?',
        )
        .pluck(),
      awardsOfBadge: sqlite
        .prepare<[string, string], string>('select uri from awards where badgeUri = ? and badgeCid = ?')
        .pluck(),
      awardsOfBadgesOf: sqlite
        .prepare<[string, string], string>('select uri from awards where badgeUri > ? and badgeUri < ?')
        .pluck(),
      awardsAnsweredBy: sqlite
        .prepare<[string, string], string>('select awardUri from responses where uri > ? and uri < ?')
        .pluck(),
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
        for (const cid of contents) addAll(this.collections, this.#sql.collectionsListing.all(uri, cid))
        return
      case collections.collection:
        this.collections.add(uri)
        return
      case collections.award:
        this.awards.add(uri)
        return
      case collections.definition:
        for (const cid of contents) addAll(this.awards, this.#sql.awardsOfBadge.all(uri, cid))
    }
  }

  /** All records of an account appear or vanish: awards of others that rest on its definitions or responses. */
  byAccount(did: Did): void {
    const range = addressRange(did)
    addAll(this.awards, this.#sql.awardsOfBadgesOf.all(...range))
    addAll(this.awards, this.#sql.awardsAnsweredBy.all(...range))
  }

  clear(): void {
    this.activities.clear()
    this.collections.clear()
    this.awards.clear()
  }
}

function addAll(set: Set<string>, values: readonly string[]): void {
  for (const value of values) set.add(value)
}
