import { turn } from './real-turn.ts'
import type { Result } from './script.ts'

/** One run of a script. */
export interface Simulation extends Disposable {
  run: () => Promise<Result>
  /** Told of what nobody catches. */
  onUnhandled: (error: unknown) => void
}

/** Plays a run to its end. One at a time: what nobody catches meanwhile is taken for its own. */
export async function runSimulation(simulation: Simulation): Promise<Result> {
  using playing = simulation
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (error) => playing.onUnhandled(error))
  try {
    return await playing.run()
  } finally {
    await turn()
    process.removeAllListeners('unhandledRejection')
    for (const listener of others) process.on('unhandledRejection', listener)
  }
}
