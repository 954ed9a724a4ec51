/** Repositories that were read as a whole, on their way into the archive: each in its turn among the events of its account. */
import { setImmediate } from 'node:timers/promises'
import { isStorageFault } from '@tributary/event-log'
import { type Lanes, type Outcome, wait, type Clock } from '@tributary/lanes'
import type { Did } from '@tributary/protocol'
import type { NewRow } from '../archive/archive.ts'
import type { AnyEvent, EventLane, RefillEvent, Upstream } from './relay-event.ts'
import { type RefillOutcome, type RepoContents, RepoRefill, type RepoRefillOptions } from './repo-refill.ts'

interface RefillsOptions extends Omit<RepoRefillOptions, 'mayReplace' | 'onWhole' | 'append'> {
  lanes: Lanes<Upstream, AnyEvent>
  upstream: Upstream
  append: (row: NewRow) => void
  /** Whether more rows should come. */
  hasRoom: () => boolean
  clock: Clock
}

export interface RefillWish extends Pick<RepoRefillOptions, 'mayReplace' | 'onWhole'> {
  /** Milliseconds that it waits at most among the events of its account, before it is given up. Default: for as long as it takes. */
  beginMsMax?: number
  /** Called when it has its turn. */
  onBegin?: () => void
}

/** Milliseconds between two looks whether the disk has kept up. */
const roomLookMs = 50

export class Refills {
  readonly #options: RefillsOptions

  constructor(options: RefillsOptions) {
    this.#options = options
  }

  /**
   * Writes what the archive lacks of a repository. Does not settle once the lanes are closed. `no-room`: too much waits for
   * the account, or for too long.
   */
  async write(contents: RepoContents, wish: RefillWish): Promise<RefillOutcome | { is: 'no-room' }> {
    const { lanes, upstream, clock } = this.#options
    const { beginMsMax, onBegin = () => {}, ...options } = wish
    const did = contents.did as Did // repositories are read by their DIDs
    let hasBegun = false
    return await new Promise((end, fail) => {
      const begin = (): void => {
        if (hasBegun) return
        hasBegun = true
        onBegin()
      }
      const refill = new RepoRefill(contents, { ...this.#options, ...options })
      const event: RefillEvent = { message: { bytes: Buffer.alloc(0) }, refill, begin, end, fail }
      if (beginMsMax !== undefined)
        clock.after(beginMsMax, () => {
          const lane = upstream.lanes.get(did)
          if (lane && !hasBegun) lanes.makeRoom(lane, (other) => other === event)
        })
      lanes.enter(upstream, did, event)
    })
  }

  /** Writes some rows of a repository. */
  step(event: RefillEvent, lane: EventLane): Outcome {
    const { lanes, hasRoom, clock } = this.#options
    if (lane.away > 0) return 'after-those-away'
    const again = async (waitFor: () => Promise<unknown>): Promise<unknown> => {
      // A repository may take seconds: no other account waits for it.
      lanes.discount(lane)
      return await waitFor()
    }
    if (!hasRoom()) return () => again(() => wait(clock, roomLookMs))
    event.begin()
    try {
      const outcome = event.refill.step()
      if (outcome === undefined) return () => again(() => setImmediate())
      event.end(outcome)
    } catch (error) {
      if (isStorageFault(error)) throw error
      event.fail(error)
    }
    return 'done'
  }
}
