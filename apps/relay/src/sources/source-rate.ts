import { SlidingWindow, TokenBucket } from '@tributary/rates'

/** Messages that are read of one source. Infinite: no such limit. */
export interface EventRates {
  perSecond: number
  perHour: number
  perDay: number
}

/** What is left of one of a source's rates. */
export interface RateBudget {
  window: 'second' | 'hour' | 'day'
  /** Messages that may be read within the window. */
  limit: number
  left: number
  /** Until the next message may be read. 0 while there is something left. */
  waitMs: number
  /** Until all of the limit is left, if nothing is read. */
  refillMs: number
}

/** The rates of one source. They outlive its connections, and what was read counts on when they are changed. */
export class SourceRate {
  readonly #second: TokenBucket
  readonly #hour: SlidingWindow
  readonly #day: SlidingWindow

  constructor(rates: EventRates, nowMs: () => number = Date.now) {
    this.#second = new TokenBucket({ perSecond: rates.perSecond }, nowMs)
    this.#hour = new SlidingWindow(3_600_000, rates.perHour, nowMs)
    this.#day = new SlidingWindow(86_400_000, rates.perDay, nowMs)
  }

  set rates({ perSecond, perHour, perDay }: EventRates) {
    this.#second.perSecond = perSecond
    this.#hour.max = perHour
    this.#day.max = perDay
  }

  /** What each message has to be allowed by. */
  get allowances(): readonly (TokenBucket | SlidingWindow)[] {
    return [this.#second, this.#hour, this.#day]
  }

  /** The limits, and how much of each is left. */
  budgets(): RateBudget[] {
    const all = [
      { window: 'second', allowance: this.#second, limit: this.#second.perSecond },
      { window: 'hour', allowance: this.#hour, limit: this.#hour.max },
      { window: 'day', allowance: this.#day, limit: this.#day.max },
    ] as const
    return all
      .filter(({ limit }) => Number.isFinite(limit))
      .map(({ window, allowance, limit }) => ({
        window,
        limit,
        left: Math.max(0, allowance.available),
        waitMs: allowance.waitMsFor(1),
        refillMs: allowance.waitMsFor(limit),
      }))
  }
}
