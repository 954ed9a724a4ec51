import { CallerTurns } from '@tributary/xrpc'
import type { Delivery } from '../delivery/delivery.ts'

/** What a handshake needs to know of the rows that there are. */
export type StartSource = Pick<Delivery, 'headSeq' | 'seqWitnessedAt' | 'oldestWitnessedAt'>

/** Handshakes that wait for their turn. Each may hold a request of a megabyte. */
const waitingMax = { perNetwork: 50, all: 500 }
/** One block that is read from a slow disk keeps nobody waiting. Blocks that are in memory are looked at at once. */
const pace = { underWayMax: 2, sliceMs: 5 }

/**
 * Finds the rows that time cursors stand for. That may read and decode a block of the archive, and there is no subscriber
 * yet whom it counts for. So networks take turns, and readers of the archive find places to read.
 */
export class TimeSeeks {
  readonly #delivery: StartSource
  readonly #turns = new CallerTurns(waitingMax, pace)

  constructor(delivery: StartSource) {
    this.#delivery = delivery
  }

  /** The rows for a handshake of an address. Seeking throws XrpcError 429 `RateLimitExceeded` when too many wait. */
  of(address: string): StartSource {
    const delivery = this.#delivery
    return {
      get headSeq() {
        return delivery.headSeq
      },
      seqWitnessedAt: (micros) => this.#turns.run(address, () => delivery.seqWitnessedAt(micros)),
      oldestWitnessedAt: () => delivery.oldestWitnessedAt(),
    }
  }
}
