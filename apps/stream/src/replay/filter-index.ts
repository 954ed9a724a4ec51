import type { EventFilter, EventKind } from '@tributary/protocol'
import { eventKinds } from '@tributary/protocol'

/** Something that wants the events of a filter. */
export interface Indexed {
  readonly filter: EventFilter
  /** The exact predicate of the filter. */
  readonly matches: (event: { kind: EventKind; did: string; collection?: string }) => boolean
}

/**
 * Finds who wants an event by looking up its kind, collection and DID, so an event costs in proportion to those who
 * want it and never visits one who does not.
 */
export class FilterIndex<T extends Indexed> {
  /** Those who want every event of a kind. */
  readonly #byKind = new Map<EventKind, Set<T>>(eventKinds.map((kind) => [kind, new Set<T>()]))
  readonly #byCollection = new Map<string, Set<T>>()
  /** Patterns without their star: `a.b.*` is found under `a.b.`. */
  readonly #byPrefix = new Map<string, Set<T>>()
  readonly #byDid = new Map<string, Set<T>>()

  add(entry: T): void {
    for (const [map, key] of this.#places(entry)) {
      const entries = map.get(key)
      if (entries) entries.add(entry)
      else map.set(key, new Set([entry]))
    }
  }

  remove(entry: T): void {
    for (const [map, key] of this.#places(entry)) {
      const entries = map.get(key)
      entries?.delete(entry)
      if (entries?.size === 0 && map !== this.#byKind) map.delete(key)
    }
  }

  /**
   * Calls `visit` for everyone who wants the event. One whose filter has an exact collection and a pattern that both
   * match is visited more than once.
   */
  match(kind: EventKind, did: string, collection: string, visit: (entry: T) => void): void {
    this.#byKind.get(kind)?.forEach(visit)
    const byDid = this.#byDid.get(did)
    if (byDid) {
      const event = { kind, did, collection }
      for (const entry of byDid) if (entry.matches(event)) visit(entry)
    }
    if (kind !== 'commit') return
    this.#byCollection.get(collection)?.forEach(visit)
    if (this.#byPrefix.size === 0) return
    for (let dot = collection.indexOf('.'); dot !== -1; dot = collection.indexOf('.', dot + 1)) {
      this.#byPrefix.get(collection.slice(0, dot + 1))?.forEach(visit)
    }
  }

  /** Where an entry stands: under its DIDs if it has any, else under its collections for commits and under its kinds. */
  *#places(entry: T): Generator<[Map<string, Set<T>>, string]> {
    const { kinds, collections, dids } = entry.filter
    if (dids?.length) {
      for (const did of dids) yield [this.#byDid, did]
      return
    }
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
