/**
 * What the changes of one transaction may have made classify differently. Collected by address while events are applied
 * and settled once at the end, so that a batch costs by what changed and not by how often it did. Where others' records
 * rest on one, that one is noted, and they are found page by page when they are settled.
 */
import type { Batch, Content } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { collections } from './record-facts.ts'

export class Affected {
  readonly activities = new Set<string>()
  readonly #collections = new Set<string>()
  readonly #awards = new Set<string>()
  /** Activities whose listings, and definitions whose awards, are to be settled: address and content. */
  readonly #listed: Content[] = []
  readonly #badges: Content[] = []
  /** Accounts whose definitions all appeared or vanished. */
  readonly #definers = new Set<Did>()

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
  async byAccount(batch: Batch, did: Did): Promise<void> {
    this.#definers.add(did)
    for await (const uris of batch.accounts.answeredAwards(did)) for (const uri of uris) this.#awards.add(uri)
  }

  /** The collections to settle, in pages. Some may come twice. */
  async *collections(batch: Batch): AsyncGenerator<string[]> {
    yield [...this.#collections]
    yield* batch.classes.collectionsListing(this.#listed)
  }

  /** The awards to settle, in pages. Some may come twice. */
  async *awards(batch: Batch): AsyncGenerator<string[]> {
    yield [...this.#awards]
    yield* batch.classes.awardsOfBadges(this.#badges)
    for (const did of this.#definers) yield* batch.classes.awardsOfBadgesOf(did)
  }
}
