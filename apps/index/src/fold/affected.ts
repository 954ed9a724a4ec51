/**
 * Collects the records that changes may have made classify differently. They are noted by address while events are applied,
 * and settled together, at the latest at the end of the transaction, so that a batch costs by what changed and not by how often
 * it did. Where others' records rest on one, that one is noted, and they are found page by page when they are settled. What is
 * noted is settled from the rows as they are then, so a change is noted when it has been made or is about to be written, never
 * before.
 */
import type { Batch, Content } from '@tributary/index-store'
import { type Did, feedCollections } from '@tributary/protocol'

/** The notes, as JSON can hold them. */
export interface Noted {
  readonly activities: readonly string[]
  readonly collections: readonly string[]
  readonly awards: readonly string[]
  readonly listed: readonly Content[]
  readonly badges: readonly Content[]
  readonly definers: readonly Did[]
  /** Not there in notes of earlier versions. */
  readonly listers?: readonly Did[]
}

/** Contents of records, each once: an author may change a record to and fro as often as a batch has events. */
class Contents {
  readonly #byKey = new Map<string, Content>()

  get size(): number {
    return this.#byKey.size
  }

  get all(): Content[] {
    return [...this.#byKey.values()]
  }

  add(content: Content): void {
    this.#byKey.set(`${content.uri} ${content.cid}`, content)
  }

  clear(): void {
    this.#byKey.clear()
  }
}

export class Affected {
  readonly activities = new Set<string>()
  readonly #collections = new Set<string>()
  readonly #awards = new Set<string>()
  /** Activities whose listings, and definitions whose awards, are to be settled: address and content. */
  readonly #listed = new Contents()
  readonly #badges = new Contents()
  /** Accounts whose definitions all appeared or vanished. */
  readonly #definers = new Set<Did>()
  /** Accounts whose collections are all to be settled. */
  readonly #listers = new Set<Did>()

  get #all(): readonly (Contents | Set<string>)[] {
    return [
      this.activities,
      this.#collections,
      this.#awards,
      this.#listed,
      this.#badges,
      this.#definers,
      this.#listers,
    ]
  }

  /** How much is noted. */
  get size(): number {
    return this.#all.reduce((sum, { size }) => sum + size, 0)
  }

  get noted(): Noted {
    return {
      activities: [...this.activities],
      collections: [...this.#collections],
      awards: [...this.#awards],
      listed: this.#listed.all,
      badges: this.#badges.all,
      definers: [...this.#definers],
      listers: [...this.#listers],
    }
  }

  /** The records that are noted themselves. What rests on others is not among it. */
  get own(): Affected {
    const own = new Affected()
    own.add({ ...this.noted, listed: [], badges: [], definers: [], listers: [] })
    return own
  }

  /** The notes of contents and accounts that other records rest on, however many those are. */
  get resting(): Affected {
    const resting = new Affected()
    resting.add({ ...this.noted, activities: [], collections: [], awards: [] })
    return resting
  }

  /** The same notes by the author of these contents. */
  byAuthor(): Map<Did, Affected> {
    const found = new Map<Did, Affected>()
    const of = (did: Did): Affected => {
      const known = found.get(did) ?? new Affected()
      found.set(did, known)
      return known
    }
    for (const content of this.#listed.all) of(authorOf(content)).#listed.add(content)
    for (const content of this.#badges.all) of(authorOf(content)).#badges.add(content)
    for (const did of this.#definers) of(did).#definers.add(did)
    for (const did of this.#listers) of(did).#listers.add(did)
    return found
  }

  /** Notes what was noted elsewhere. */
  add({ activities, collections, awards, listed, badges, definers, listers = [] }: Noted): void {
    for (const uri of activities) this.activities.add(uri)
    for (const uri of collections) this.#collections.add(uri)
    for (const uri of awards) this.#awards.add(uri)
    for (const did of definers) this.#definers.add(did)
    for (const did of listers) this.#listers.add(did)
    for (const content of listed) this.#listed.add(content)
    for (const content of badges) this.#badges.add(content)
  }

  /** Forgets what was noted, because it is settled. */
  clear(): void {
    for (const noted of this.#all) noted.clear()
  }

  /**
   * A record changed or went. `cid` is its present or last content and `earlierCid` the one before: references to other
   * contents matched neither before nor after.
   */
  byRecord(record: { uri: string; collection: string; cid: string }, earlierCid: string | undefined): void {
    const { uri, collection } = record
    this.bySelf(record)
    const contents = earlierCid === undefined ? [record.cid] : [record.cid, earlierCid]
    if (collection === feedCollections.activity) for (const cid of contents) this.#listed.add({ uri, cid })
    if (collection === feedCollections.definition) for (const cid of contents) this.#badges.add({ uri, cid })
  }

  /** A record appears together with all others of its account, so that only what rests on its definitions is elsewhere. */
  bySelf({ uri, collection }: { uri: string; collection: string }): void {
    if (collection === feedCollections.activity) this.activities.add(uri)
    else if (collection === feedCollections.collection) this.#collections.add(uri)
    else if (collection === feedCollections.award) this.#awards.add(uri)
  }

  byCollection(uri: string): void {
    this.#collections.add(uri)
  }

  byAward(uri: string): void {
    this.#awards.add(uri)
  }

  /** All awards of this content are to be settled. */
  byBadge(badge: Content): void {
    this.#badges.add(badge)
  }

  /** All definitions of an account have appeared or vanished, and with them what others' awards rest on. */
  byDefiner(did: Did): void {
    this.#definers.add(did)
  }

  /** The collections to settle, in pages. Some may come twice. */
  async *collections(batch: Batch): AsyncGenerator<string[]> {
    yield [...this.#collections]
    yield* batch.classes.collectionsListing(this.#listed.all)
    for (const did of this.#listers) yield* batch.classes.collectionsOf(did)
  }

  /** The awards to settle, in pages. Some may come twice. */
  async *awards(batch: Batch): AsyncGenerator<string[]> {
    yield [...this.#awards]
    yield* batch.classes.awardsOfBadges(this.#badges.all)
    for (const did of this.#definers) yield* batch.classes.awardsOfBadgesOf(did)
  }
}

function authorOf({ uri }: Content): Did {
  return uri.split('/')[2] as Did // the address of a stored record, at://<did>/…
}
