import { compileCollections, isNsid } from '@tributary/protocol'
import type { StateDatabase } from './state-database.ts'

/**
 * The collections whose records are kept. They are policy: the settings fill an empty data directory, and from then on
 * the database says what is watched.
 * @throws RangeError when a collection to begin with is not an NSID.
 */
export function loadWatchedCollections(
  database: StateDatabase,
  seed: readonly string[],
  nowMs: number,
): ReadonlySet<string> {
  const select = database.prepare<[], { collection: string }>('SELECT collection FROM watched_collections')
  const stored = select.all()
  if (stored.length > 0) return new Set(stored.map(({ collection }) => collection))
  const wrong = seed.find((collection) => !isNsid(collection))
  if (wrong !== undefined) throw new RangeError(`${wrong} is not the NSID of a collection`)
  const insert = database.prepare('INSERT INTO watched_collections VALUES (?, ?, ?)')
  database.transaction(() => {
    for (const collection of seed) insert.run(collection, nowMs, 'settings')
  })()
  return new Set(seed)
}

/** The exact NSIDs and patterns, out of those of a filter, that no watched collection matches. */
export function unwatchedOf(patterns: readonly string[], watched: ReadonlySet<string>): string[] {
  return patterns.filter((pattern) => !watched.values().some(compileCollections([pattern])))
}
