import { setImmediate } from 'node:timers/promises'
import { networkOf, XrpcError } from '@tributary/xrpc'

/** A call that waits for its turn, and when that is over. */
interface Turn {
  begin: () => void
  end: Promise<void>
}

/** Calls that wait at a time: of one network, and of all. */
export interface WaitingLimits {
  perNetwork: number
  all: number
}

/**
 * Does work that takes milliseconds for callers, one piece after the other and each in a turn of the event loop of its
 * own, so that any number of calls, sent at once, holds up nobody's events. Networks (`networkOf`) take turns: a call
 * waits for its own network's earlier ones, and for one of each other network.
 */
export class CallerTurns {
  readonly #limits: WaitingLimits
  /** Networks with calls that wait, the next first, and their calls, the oldest first. */
  readonly #queues = new Map<string, Turn[]>()
  #waiting = 0
  #isRunning = false

  constructor(limits: WaitingLimits = { perNetwork: 50, all: 10_000 }) {
    this.#limits = limits
  }

  /**
   * What the work gives or throws, once it had its turn. Others wait until it is done.
   * @throws XrpcError 429 `RateLimitExceeded` when too many calls wait.
   */
  async run<T>(address: string, work: () => T | Promise<T>): Promise<T> {
    const network = networkOf(address)
    const queue = this.#queues.get(network) ?? []
    if (queue.length >= this.#limits.perNetwork || this.#waiting >= this.#limits.all)
      throw new XrpcError(429, 'RateLimitExceeded', 'Too many of these calls wait: send fewer at a time', {
        'Retry-After': '1',
      })
    this.#waiting++
    this.#queues.set(network, queue)
    const turn = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    queue.push({ begin: turn.resolve, end: end.promise })
    if (!this.#isRunning) void this.#runAll()
    await turn.promise
    try {
      return await work()
    } finally {
      end.resolve()
    }
  }

  async #runAll(): Promise<void> {
    this.#isRunning = true
    for (const [network, queue] of this.#queues) {
      this.#queues.delete(network)
      const turn = queue.shift()
      // The next call of this network comes after one of each other.
      if (queue.length > 0) this.#queues.set(network, queue)
      turn?.begin()
      await turn?.end
      this.#waiting--
      await setImmediate()
    }
    this.#isRunning = false
  }
}
