import { decodeFrame, watchedCollections } from '@tributary/protocol'
import { Load } from '@tributary/testkit'

/** How many events a stream shows of the first `n` commits of a load, by `n`. */
export type WatchedEvents = (commits: number) => number

/** What a relay shows: each commit of a load is one event. */
export const everyCommit: WatchedEvents = (commits) => commits

/** Reads a whole load, about 5 µs a commit. The stream has one event for each operation on a watched collection. */
export function readWatchedEvents(loadFile: string): WatchedEvents {
  const events = readShownEvents(loadFile)
  return (commits) => firstOf(events, commits)
}

/** An event that the stream shows. */
export interface ShownEvent {
  /** Index of its commit in the load. */
  commit: number
  did: string
  collection: string
}

/** The same events one by one. */
export function readShownEvents(loadFile: string): ShownEvent[] {
  using load = new Load(loadFile)
  const watched = new Set<string>(watchedCollections)
  const events: ShownEvent[] = []
  for (let commit = 0; commit < load.count; commit++) {
    const ops = decodeFrame(load.readMessage(commit)).body['ops'] as { path: string }[] // reason: a load is well-formed.
    const did = load.info.accounts[load.accountOf[commit] ?? 0]?.did ?? ''
    for (const { path } of ops) {
      const collection = path.slice(0, path.indexOf('/'))
      if (watched.has(collection)) events.push({ commit, did, collection })
    }
  }
  return events
}

/** How many events stand before a commit. */
export function firstOf(events: readonly ShownEvent[], commit: number): number {
  let low = 0
  let high = events.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((events[middle]?.commit ?? 0) < commit) low = middle + 1
    else high = middle
  }
  return low
}
