/**
 * Tells of runs that do not end: those that never come to rest, and those that wait for what never comes. Both would end
 * the process, or not, without saying which seed was played.
 */
import workerThreads from 'node:worker_threads'
import type { AnyScript, Play } from './script.ts'

// A simulator may put something in its place.
const { Worker } = workerThreads

/** Plays as `play` does, and watches it. Ends the process for a run that does not end. */
export function watchSeeds<S extends AnyScript>(play: Play<S>): Play<S> {
  // The thread sees in it how many runs have begun, and the seed of the last one.
  const began = new Float64Array(new SharedArrayBuffer(16))
  let playing: number | undefined
  const thread = new Worker(new URL('watching-thread.ts', import.meta.url), { workerData: began })
  thread.unref()
  process.once('exit', () => {
    if (playing !== undefined) console.log(`simulator: seed ${playing} waits for what never comes`)
  })
  return async (script) => {
    began[0] = (began[0] ?? 0) + 1
    playing = script.seed
    began[1] = playing
    const result = await play(script)
    playing = undefined
    return result
  }
}
