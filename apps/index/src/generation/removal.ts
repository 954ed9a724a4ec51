/**
 * Removes generations that nobody needs. What cannot be removed is told once, and tried again at ever longer intervals.
 * The process has one for all generations, because a generation that is served again would else begin at the first interval.
 */
import type { Generations } from '@tributary/index-store'
import type { Logger } from '@tributary/telemetry'
import { backoffMs } from '../pause.ts'

/** How long it is not tried again after the first failure. A reader may hold a lock for so long. */
const firstAgainMs = 2000

export interface RemovalOptions {
  readonly generations: Pick<Generations, 'keepOnly'>
  /** Told whether there is a generation that nobody needs and that cannot be removed. */
  readonly onLeft: (isLeft: boolean) => void
  /** The longest interval. */
  readonly tryAgainMs: number
  readonly logger: Logger
  /** Milliseconds of a clock that never goes back. */
  readonly nowMs?: () => number
}

export class Removal {
  readonly #options: RemovalOptions
  readonly #nowMs: () => number
  #left: readonly number[] = []
  #leftBecause = ''
  #failures = 0
  #againAtMs = -Infinity

  constructor(options: RemovalOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? (() => performance.now())
  }

  /** Whether this generation was to be removed and is still there. */
  isLeft(generation: number): boolean {
    return this.#left.includes(generation)
  }

  /** Removes every other generation, unless a failure was a short time ago. Resolves with whether all of them are gone. */
  async keepOnly(kept: readonly number[]): Promise<boolean> {
    return this.#nowMs() >= this.#againAtMs && (await this.keepOnlyNow(kept))
  }

  /** The same, also soon after a failure. */
  async keepOnlyNow(kept: readonly number[]): Promise<boolean> {
    const { generations, onLeft, tryAgainMs: maxMs, logger } = this.#options
    const fault = await generations.keepOnly(kept)
    onLeft(fault !== undefined)
    if (fault !== undefined && fault.message !== this.#leftBecause)
      logger.warn({ err: fault, kept }, 'a generation that nobody needs cannot be removed; it is tried again')
    this.#left = fault?.generations ?? []
    this.#leftBecause = fault?.message ?? ''
    const waitMs = fault === undefined ? 0 : backoffMs(this.#failures, { firstMs: firstAgainMs, maxMs })
    this.#failures = fault === undefined ? 0 : this.#failures + 1
    this.#againAtMs = this.#nowMs() + waitMs
    return fault === undefined
  }
}
