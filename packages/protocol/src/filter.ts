/** The three independent filters of the stream: kinds, collections (commits only), DIDs. An absent or empty list means all. */
import { isNsid } from './syntax.ts'
import type { EventKind } from './stream-events.ts'

export interface EventFilter {
  kinds?: readonly EventKind[] | undefined
  /** Exact NSIDs, or patterns that end in `.*`. They constrain commits only. */
  collections?: readonly string[] | undefined
  dids?: readonly string[] | undefined
}

/** True for an exact NSID, or for `<head>.*` where `<head>` has at least two labels. */
export function isCollectionPattern(text: string): boolean {
  return text.endsWith('.*') ? isNsid(`${text.slice(0, -1)}x`) : isNsid(text)
}

/** A predicate over a collection, from exact NSIDs and `.*` patterns. An empty list matches all. */
export function compileCollections(patterns: readonly string[] = []): (collection: string) => boolean {
  if (patterns.length === 0) return () => true
  const exact = new Set(patterns.filter((pattern) => !pattern.endsWith('.*')))
  const prefixes = patterns.filter((pattern) => pattern.endsWith('.*')).map((pattern) => pattern.slice(0, -1))
  return (collection) => exact.has(collection) || prefixes.some((prefix) => collection.startsWith(prefix))
}

/** A predicate over events for a filter whose values have been checked. */
export function compileFilter(
  filter: EventFilter,
): (event: { kind: EventKind; did: string; collection?: string }) => boolean {
  const dids = filter.dids?.length ? new Set<string>(filter.dids) : undefined
  const matchesBesidesDid = compileFilterBesidesDid(filter)
  return (event) => (dids === undefined || dids.has(event.did)) && matchesBesidesDid(event)
}

/** The same without the DIDs of the filter, for a caller who looks those up in another way. */
export function compileFilterBesidesDid(
  filter: EventFilter,
): (event: { kind: EventKind; collection?: string }) => boolean {
  if (!filter.kinds?.length && !filter.collections?.length) return () => true
  const kinds = filter.kinds?.length ? new Set<EventKind>(filter.kinds) : undefined
  const wantsCollection = compileCollections(filter.collections)
  return ({ kind, collection }) =>
    (kinds === undefined || kinds.has(kind)) &&
    (kind !== 'commit' || !collection || wantsCollection(collection))
}
