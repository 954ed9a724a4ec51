import { FairTurns, type FairTurnsOptions } from '@tributary/rates'
import { siteOf } from './network-of.ts'
import { XrpcError } from './xrpc-error.ts'

/** Calls that wait at a time: of one network, and of all. */
export interface WaitingLimits {
  perNetwork: number
  all: number
}

/**
 * Does work that takes milliseconds for callers, one piece after the other and with a pause after each that is as long,
 * so that any number of calls, sent at once, holds up nobody's events. Networks (`siteOf`) take turns.
 */
export class CallerTurns {
  readonly #limits: WaitingLimits
  readonly #turns: FairTurns

  /** @param pace default: one piece at a time, and a pause after each. */
  constructor(limits: WaitingLimits = { perNetwork: 50, all: 10_000 }, pace: FairTurnsOptions = {}) {
    this.#limits = limits
    this.#turns = new FairTurns(pace)
  }

  /**
   * What the work gives or throws, once it had its turn. Others wait until it is done.
   * @throws XrpcError 429 `RateLimitExceeded` when too many calls of the network wait, or when too many of all do and the
   *   network has most of them.
   */
  async run<T>(address: string, work: () => T | Promise<T>): Promise<T> {
    const network = siteOf(address)
    const { perNetwork, all } = this.#limits
    if (this.#turns.sizeOf(network) >= perNetwork) throw tooMany()
    const turn = this.#turns.run(network, work)
    if (this.#turns.size > all) this.#turns.giveUpOne(tooMany())
    return turn
  }
}

function tooMany(): XrpcError {
  const message = 'Too many of these calls wait: send fewer at a time'
  return new XrpcError(429, 'RateLimitExceeded', message, { 'Retry-After': '1' })
}
