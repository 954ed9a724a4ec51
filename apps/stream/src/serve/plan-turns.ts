import { setImmediate } from 'node:timers/promises'
import { FairTurns } from '@tributary/rates'
import { siteOf } from '@tributary/xrpc'

/**
 * The turns of the event loop in which plans are made: one plan in each of them, and half of the time at most. A plan of
 * many DIDs takes hundreds of them, so networks take turns at every one.
 */
export class PlanTurns {
  readonly #turns = new FairTurns()

  /** Resolves when a plan for the address may go on. It then has the rest of this turn of the event loop. */
  async next(address: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    void this.#turns.run(siteOf(address), async () => {
      resolve()
      await setImmediate()
    })
    await promise
  }
}
