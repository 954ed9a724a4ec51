/**
 * The rows that events touch, in memory. Before events are applied, what they look at is loaded in sets; applying them
 * changes rows here and nowhere else; then the changes are written in sets.
 */
import type { Batch } from '@tributary/index-store'
import { type Did, feedCollections, recordUri, type StreamEvent } from '@tributary/protocol'
import { Affected } from './affected.ts'
import type { EarlierPlaces, Place } from './earlier-places.ts'
import type { StrongRef } from './record-facts.ts'
import { RowMap } from './row-map.ts'

/** Characters of records that wait to be written. */
const waitingCharsMax = 8_000_000
/** So much may be noted before it is settled: 2 MB, and what one event notes. */
export const notedMax = 10_000

/** The activities that a collection record lists. */
export interface Listing {
  readonly items: readonly StrongRef[]
  /** Of the collection record. */
  readonly feedTime: bigint
}

export class IndexRows {
  readonly accounts = new RowMap('accounts', [
    'did',
    'status',
    'statusSeq',
    'hostStatus',
    'hidden',
    'checkedAt',
    'isAuthor',
  ])
  readonly handleRequests = new RowMap('handleRequests', ['did', 'seq'])
  readonly handles = new RowMap('handles', ['did'])
  readonly records = new RowMap('records', ['uri', 'cid', 'indexedAt', 'createdAt'])
  readonly superseded = new RowMap('superseded', ['uri', 'cid', 'indexedAt', 'createdAt', 'supersededAt'])
  readonly views = new RowMap('views', ['uri'])
  readonly awards = new RowMap('awards', ['uri'])
  readonly responses = new RowMap('responses', ['uri', 'awardUri'])
  readonly entries = new RowMap('entries', ['uri'])
  readonly follows = new RowMap('follows', ['uri'])
  readonly organizations = new RowMap('organizations', ['did'])
  /** Records that the changes may have made classify differently. */
  readonly affected = new Affected()
  readonly #changedItems = new Map<string, Listing>()
  readonly #earlier: EarlierPlaces | undefined
  readonly #notedMax: number
  readonly #earlierPlaces = new Map<string, Place>()
  #waitingChars = 0

  /** @param noted what may be noted before it is settled */
  constructor(earlier?: EarlierPlaces, noted: number = notedMax) {
    this.#earlier = earlier
    this.#notedMax = noted
  }

  /** The place of a record in an earlier index. */
  earlierPlace(uri: string): Place | undefined {
    return this.#earlierPlaces.get(uri)
  }

  /** Sets the activities that a collection record lists. They replace those in the database when changes are written. */
  setItems(collectionUri: string, listing: Listing): void {
    this.#changedItems.set(collectionUri, listing)
  }

  /** The collection records whose items changed, which are from then on the caller's to write. */
  takeChangedItems(): Map<string, Listing> {
    const changed = new Map(this.#changedItems)
    this.#changedItems.clear()
    return changed
  }

  /** Notes that a record of this length waits to be written. */
  addWaiting(chars: number): void {
    this.#waitingChars += chars
  }

  /** True when the changes should be written before more events are applied. */
  get isFull(): boolean {
    return this.#waitingChars > waitingCharsMax
  }

  /** True when what was noted should be settled before more events are applied. */
  get isMuchNoted(): boolean {
    return this.affected.size >= this.#notedMax
  }

  /** Loads what these events look at. */
  async load(batch: Batch, events: readonly StreamEvent[]): Promise<void> {
    const dids = new Set<Did>(events.map(({ did }) => did))
    await this.accounts.load(batch, dids)
    const asking = events
      .filter(({ kind, did }) => kind !== 'commit' || this.accounts.get(did)?.isAuthor !== 1n)
      .map(({ did }) => did)
    await this.handleRequests.load(batch, asking)

    const uris = new Map<string, string>()
    for (const event of events) {
      if (event.kind === 'commit')
        uris.set(recordUri(event.did, event.collection, event.rkey), event.collection)
    }
    await this.records.load(batch, uris.keys())
    await this.superseded.load(batch, uris.keys())
    await this.#loadEarlier([...uris.keys()])
    const of = (wanted: string): string[] =>
      [...uris].filter(([, collection]) => collection === wanted).map(([uri]) => uri)
    await this.responses.load(batch, of(feedCollections.response))
  }

  /** Writes what has changed, except items of collections: `writeChanges` of settle.ts writes those too. */
  async flush(batch: Batch): Promise<void> {
    const all = [
      this.accounts,
      this.handleRequests,
      this.handles,
      this.records,
      this.superseded,
      this.views,
      this.awards,
      this.responses,
      this.entries,
      this.follows,
      this.organizations,
    ]
    for (const rows of all) await rows.flush(batch)
    this.#waitingChars = 0
  }

  /** Loads the records of these events again, after all rows of their account have changed at once. */
  async reload(batch: Batch, did: Did, events: readonly StreamEvent[]): Promise<void> {
    const prefix = `at://${did}/`
    for (const rows of [this.records, this.superseded, this.responses]) rows.forget(prefix)
    await this.load(
      batch,
      events.filter((event) => event.did === did),
    )
  }

  async #loadEarlier(uris: readonly string[]): Promise<void> {
    if (this.#earlier === undefined) return
    const missing = uris.filter((uri) => !this.#earlierPlaces.has(uri))
    for (const [uri, place] of await this.#earlier.load(missing)) this.#earlierPlaces.set(uri, place)
  }
}
