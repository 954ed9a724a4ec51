import { setImmediate } from 'node:timers/promises'
import { networkOf, XrpcError } from '@tributary/xrpc'

/** Calls of one network that wait at a time, and of all networks. */
const waitingMax = { perNetwork: 50, all: 10_000 }

/**
 * Lets calls that take milliseconds go one in each turn of the event loop, so that any number of them, sent at once,
 * holds up nobody's events. Networks (`networkOf`) take turns: a call waits for its own network's earlier ones, and for
 * one of each other network.
 */
export class CallerTurns {
  /** Networks with calls that wait, the next first, and their calls, the oldest first. */
  readonly #queues = new Map<string, (() => void)[]>()
  #waiting = 0
  #isRunning = false

  /** @throws XrpcError 429 `RateLimitExceeded` when too many calls wait. */
  async take(address: string): Promise<void> {
    const network = networkOf(address)
    const queue = this.#queues.get(network) ?? []
    if (queue.length >= waitingMax.perNetwork || this.#waiting >= waitingMax.all)
      throw new XrpcError(429, 'RateLimitExceeded', 'Too many of these calls wait: send fewer at a time', {
        'Retry-After': '1',
      })
    this.#waiting++
    this.#queues.set(network, queue)
    await new Promise<void>((resolve) => {
      queue.push(resolve)
      if (!this.#isRunning) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    for (const [network, queue] of this.#queues) {
      this.#queues.delete(network)
      queue.shift()?.()
      this.#waiting--
      // The next call of this network comes after one of each other.
      if (queue.length > 0) this.#queues.set(network, queue)
      await setImmediate()
    }
    this.#isRunning = false
  }
}
