import type { EventFilter, EventKind } from '@tributary/protocol'
import { eventKinds } from '@tributary/protocol'
import { DidIndex } from './did-index.ts'

/** Something that wants the events of a filter. */
export interface Indexed {
  readonly filter: EventFilter
  /** The predicate of kinds and collections. The index knows the DIDs. */
  readonly matchesBesidesDid: (event: { kind: EventKind; collection: string }) => boolean
}

/**
 * Finds who wants an event by looking up its kind, collection and DID, so an event costs in proportion to those who
 * want it and never visits one who does not.
 */
export class FilterIndex<T extends Indexed> {
  /** Groups that want every event of a kind. */
  readonly #byKind = new Map<string, Set<T>>(eventKinds.map((kind) => [kind, new Set<T>()]))
  readonly #byCollection = new Map<string, Set<T>>()
  /** Patterns without their star: `a.b.*` is found under `a.b.`. */
  readonly #byPrefix = new Map<string, Set<T>>()
  readonly #byDid = new DidIndex<T>()

  add(entry: T): void {
    const { dids } = entry.filter
    if (dids?.length) for (const did of dids) this.#byDid.add(did, entry)
    else
      for (const [map, key] of this.#places(entry)) {
        const entries = map.get(key)
        if (entries) entries.add(entry)
        else map.set(key, new Set([entry]))
      }
  }

  remove(entry: T): void {
    const { dids } = entry.filter
    if (dids?.length) for (const did of dids) this.#byDid.remove(did, entry)
    else
      for (const [map, key] of this.#places(entry)) {
        const entries = map.get(key)
        entries?.delete(entry)
        if (entries?.size === 0 && map !== this.#byKind) map.delete(key)
      }
  }

  /** Whether an entry that was added wants events of a DID. */
  wantsDid(entry: T, did: string): boolean {
    return !entry.filter.dids?.length || this.#byDid.names(did, entry)
  }

  /**
   * Calls `visit` for everyone who wants the event. One whose filter has an exact collection and a pattern that both
   * match is visited more than once.
   */
  match(kind: EventKind, did: string, collection: string, visit: (entry: T) => void): void {
    this.#byKind.get(kind)?.forEach(visit)
    const event = { kind, collection }
    this.#byDid.forEach(did, (entry) => {
      if (entry.matchesBesidesDid(event)) visit(entry)
    })
    if (kind !== 'commit') return
    this.#byCollection.get(collection)?.forEach(visit)
    if (this.#byPrefix.size === 0) return
    for (let dot = collection.indexOf('.'); dot !== -1; dot = collection.indexOf('.', dot + 1)) {
      this.#byPrefix.get(collection.slice(0, dot + 1))?.forEach(visit)
    }
  }

  /** Where an entry without DIDs stands: under its collections for commits, and under its kinds. */
  *#places(entry: T): Generator<[Map<string, Set<T>>, string]> {
    const { kinds, collections } = entry.filter
    for (const kind of kinds?.length ? kinds : eventKinds) {
      if (kind !== 'commit' || !collections?.length) {
        yield [this.#byKind, kind]
        continue
      }
      for (const pattern of collections) {
        if (pattern.endsWith('.*')) yield [this.#byPrefix, pattern.slice(0, -1)]
        else yield [this.#byCollection, pattern]
      }
    }
  }
}
