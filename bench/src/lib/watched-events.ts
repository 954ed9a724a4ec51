import { decodeFrame, watchedCollections } from '@tributary/protocol'
import { Load } from '@tributary/testkit'

/** How many events a stream shows of the first `n` commits of a load, by `n`. */
export type WatchedEvents = (commits: number) => number

/** What a relay shows: each commit of a load is one event. */
export const everyCommit: WatchedEvents = (commits) => commits

/** Reads a whole load, about 5 µs a commit. The stream has one event for each operation on a watched collection. */
export function readWatchedEvents(loadFile: string): WatchedEvents {
  using load = new Load(loadFile)
  const watched = new Set<string>(watchedCollections)
  const upTo = new Uint32Array(load.count + 1)
  for (let commit = 0; commit < load.count; commit++) {
    const ops = decodeFrame(load.readMessage(commit)).body['ops'] as { path: string }[] // reason: a load is well-formed.
    const shown = ops.filter(({ path }) => watched.has(path.slice(0, path.indexOf('/')))).length
    upTo[commit + 1] = (upTo[commit] ?? 0) + shown
  }
  return (commits) => upTo[commits] ?? 0
}
