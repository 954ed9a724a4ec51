import type { Clock } from '../clock.ts'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import type { WaitLimits } from './limits.ts'

/** How often held-up sources are looked at. They are not read, so no event of theirs triggers `look`. */
const reliefMs = 100
/** Most events of a source that are left out in one go: `read` when it brings an event, `held` each `reliefMs`. */
const relieved = { read: 4, held: 64 }

export interface HeldUpOptions {
  max: WaitLimits['pending']
  clock: Clock
  /** Leaves out an event that waits. False when it does not wait. */
  leaveOut: (event: UpstreamEvent) => boolean
  /** Called when a source must not be read any more, and when it may be read again. */
  onHeldUp: (source: Source, isHeldUp: boolean) => void
}

/**
 * Keeps one event that waits from holding up its source: the cursor of the source cannot pass the event, and after too
 * much has come the source cannot be read.
 */
export class HeldUpSources implements Disposable {
  readonly #options: HeldUpOptions
  readonly #max: WaitLimits['pending']
  /** Sources that are not read because too much came after an event of theirs that waits. */
  readonly #heldUp = new Set<Source>()
  readonly #timer: Disposable

  constructor(options: HeldUpOptions) {
    this.#options = options
    this.#max = options.max
    this.#timer = options.clock.every(reliefMs, () =>
      this.#heldUp.forEach((source) => this.#relieve(source, relieved.held)),
    )
  }

  /** Looks at a source that has brought an event. */
  look(source: Source): void {
    if (source.openSpan > this.#max.events) this.#relieve(source, relieved.read)
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]()
  }

  /**
   * Leaves out the oldest events of a source if they have waited for too long and too many events came after them, because
   * each of those has to be remembered. A source with far too many is not read meanwhile.
   * @param most events that are left out now: each costs a tenth of a millisecond.
   */
  #relieve(source: Source, most: number): void {
    const { events, waitMs, eventsMax } = this.#max
    const nowMs = this.#options.clock.nowMs()
    for (let left = most; left > 0 && source.openSpan > events; left--) {
      const { oldest } = source
      if (!oldest) break
      const waitedMs = nowMs - oldest.receipt.receivedAtMs
      // Below 0 the clock was set back, and nobody knows how long the event has waited.
      if (waitedMs >= 0 && waitedMs < waitMs) break
      if (!this.#options.leaveOut(oldest)) break
    }
    const isHeldUp = source.openSpan > eventsMax
    if (isHeldUp === this.#heldUp.has(source)) return
    if (isHeldUp) this.#heldUp.add(source)
    else this.#heldUp.delete(source)
    this.#options.onHeldUp(source, isHeldUp)
  }
}
