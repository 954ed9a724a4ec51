/**
 * The collections whose records are kept. They are policy: the settings fill an empty data directory, and from then on
 * the database says what is watched, with a revision that every change raises.
 *
 * Must hold: what `has` answers is stored. Identity, account and sync events are kept whatever is watched.
 */
import { compileCollections, isNsid } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import type { StateDatabase } from '../state-database.ts'

export interface WatchedCollection {
  collection: string
  addedAtMs: number
  /** Revision of the policy that began with it. */
  addedRevision: number
  /** Who added it. */
  actor: string
}

/** What is watched, as far as it matters to which repositories are whole. */
export interface WatchPolicy {
  has(collection: string): boolean
  /** The same object until something changes. */
  names(): ReadonlySet<string>
  /** Goes up with every change. */
  readonly revision: number
  /** The newest revision with which a collection came that is watched. */
  readonly newestAddition: number
  /** Whether a collection came with a revision after the given one. */
  isAddedAfter(collection: string, revision: number): boolean
  /** Whether a collection that was removed before came again after a revision, and not after another one. */
  isAnyAddedAgain(afterRevision: number, throughRevision: number): boolean
}

/** Most collections that are watched at a time. The index of a segment has a bit for each in every block. */
const collectionsMax = 1000

export class WatchedCollections implements WatchPolicy {
  readonly #database: StateDatabase
  #revision = 0
  #newestAddition = 0
  #collections = new Map<string, WatchedCollection>()
  #names: ReadonlySet<string> = new Set()
  /** Collections that were ever removed: what they have in the archive may be of before. */
  #removed: ReadonlySet<string> = new Set()

  /**
   * @param seed what a new data directory begins with.
   * @throws RangeError when a collection of the seed is not an NSID.
   */
  constructor(database: StateDatabase, seed: readonly string[], nowMs: number) {
    this.#database = database
    this.reload()
    if (this.#revision > 0) return
    const wrong = seed.find((collection) => !isNsid(collection))
    if (wrong !== undefined) throw new RangeError(`${wrong} is not the NSID of a collection`)
    database.transaction(() => {
      database.prepare('INSERT INTO watch_policy VALUES (1, 1)').run()
      for (const collection of new Set(seed))
        this.#insert({ collection, addedAtMs: nowMs, addedRevision: 1, actor: 'settings' })
    })()
    this.reload()
  }

  /** Goes up with every change. 1 is what the settings began with. */
  get revision(): number {
    return this.#revision
  }

  has(collection: string): boolean {
    return this.#collections.has(collection)
  }

  /** By name. */
  list(): WatchedCollection[] {
    return [...this.#collections.values()]
  }

  names(): ReadonlySet<string> {
    return this.#names
  }

  get newestAddition(): number {
    return this.#newestAddition
  }

  isAddedAfter(collection: string, revision: number): boolean {
    return (this.#collections.get(collection)?.addedRevision ?? 0) > revision
  }

  isAnyAddedAgain(afterRevision: number, throughRevision: number): boolean {
    return this.#removed
      .values()
      .some(
        (collection) =>
          this.isAddedAfter(collection, afterRevision) && !this.isAddedAfter(collection, throughRevision),
      )
  }

  /** The exact NSIDs and patterns, out of those of a filter, that no watched collection matches. */
  unwatchedOf(patterns: readonly string[]): string[] {
    return patterns.filter((pattern) => !this.#collections.keys().some(compileCollections([pattern])))
  }

  /**
   * Stores a collection, within the transaction of the caller. `reload` makes it count.
   * @throws XrpcError 400 `InvalidRequest` or `CollectionWatched`.
   */
  add(collection: string, actor: string, nowMs: number): WatchedCollection {
    if (!isNsid(collection)) {
      const message = `${collection} is not the NSID of a collection, as in org.example.thing; patterns cannot be watched`
      throw new XrpcError(400, 'InvalidRequest', message)
    }
    if (this.has(collection))
      throw new XrpcError(400, 'CollectionWatched', `${collection} is watched already`)
    if (this.#collections.size >= collectionsMax) {
      const message = `${collectionsMax} collections are watched, which is the most; remove one first`
      throw new XrpcError(400, 'InvalidRequest', message)
    }
    const added = { collection, addedAtMs: nowMs, addedRevision: this.#revision + 1, actor }
    this.#insert(added)
    this.#raiseRevision()
    return added
  }

  /** Takes a collection out, as `add` stores it. @throws XrpcError 400 `CollectionNotWatched`. */
  remove(collection: string): WatchedCollection {
    const removed = this.#collections.get(collection)
    if (!removed) throw new XrpcError(400, 'CollectionNotWatched', `${collection} is not watched`)
    this.#database.prepare('DELETE FROM watched_collections WHERE collection = ?').run(collection)
    this.#database.prepare('INSERT OR IGNORE INTO removed_collections VALUES (?)').run(collection)
    this.#raiseRevision()
    return removed
  }

  /** Takes what is stored for what holds. */
  reload(): void {
    const revision = this.#database.prepare<[], number>('SELECT revision FROM watch_policy').pluck()
    this.#revision = revision.get() ?? 0
    const rows = this.#database
      .prepare<[], WatchedCollection>(
        `SELECT collection, added_at_ms AS addedAtMs, added_revision AS addedRevision, actor
         FROM watched_collections ORDER BY collection`,
      )
      .all()
    this.#collections = new Map(rows.map((row) => [row.collection, row]))
    this.#names = new Set(this.#collections.keys())
    const removed = this.#database.prepare<[], string>('SELECT collection FROM removed_collections').pluck()
    this.#removed = new Set(removed.all())
    this.#newestAddition = rows.reduce((newest, { addedRevision }) => Math.max(newest, addedRevision), 1)
  }

  #insert({ collection, addedAtMs, actor, addedRevision }: WatchedCollection): void {
    this.#database
      .prepare('INSERT INTO watched_collections VALUES (?, ?, ?, ?)')
      .run(collection, addedAtMs, actor, addedRevision)
  }

  #raiseRevision(): void {
    this.#database.prepare('UPDATE watch_policy SET revision = revision + 1').run()
  }
}
