/**
 * Why a source is not read at the moment: the pipeline is full, or the disk is, it has used up its rate, the DID
 * documents of too many of its accounts have not been read yet, or too much came after one of its events that waits.
 */
export type PauseReason = 'backlog' | 'disk-floor' | 'rate' | 'identities' | 'held-up'

/** Something of which every event that is read takes one. */
export interface Allowance {
  /** Events that may pass now. */
  readonly available: number
  spend(events: number): void
  /** Milliseconds until so many may pass. */
  waitMsFor(events: number): number
}

/** Events that are taken from the allowances at a time, so that most events cost one subtraction. */
const takenAtOnce = 32
/** An allowance that is used up is looked at again after this at the latest, since it may have been raised. */
const lookAgainMs = 1000

/**
 * Says when a source may be read. Nothing is dropped here: what is not read waits at its host.
 * What was read already when a pause begins still passes, and is paid for before the next.
 */
export class ReadGate {
  readonly #allowances: readonly Allowance[]
  readonly #onChange: (reason: PauseReason | undefined) => void
  readonly #reasons = new Set<PauseReason>()
  #paid = 0
  #timer: NodeJS.Timeout | undefined

  /** @param onChange told of the first reason there is, and of none. */
  constructor(allowances: readonly Allowance[], onChange: (reason: PauseReason | undefined) => void) {
    this.#allowances = allowances
    this.#onChange = onChange
  }

  /** Why the source may not be read now: the first reason there is. */
  get reason(): PauseReason | undefined {
    return this.#reasons.values().next().value
  }

  /** Counts events, or other frames, that were read. */
  pass(events = 1): void {
    this.#paid -= events
    if (this.#paid < 0 && this.#timer === undefined) this.#pay()
  }

  setPaused(reason: PauseReason, isPaused: boolean): void {
    const before = this.reason
    if (isPaused) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
    if (this.reason !== before) this.#onChange(this.reason)
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #pay(): void {
    const owed = -this.#paid
    const waitMs = Math.max(...this.#allowances.map((each) => each.waitMsFor(owed)))
    if (waitMs === 0) {
      const more = Math.min(takenAtOnce, ...this.#allowances.map(({ available }) => available - owed))
      const taken = owed + Math.max(0, more)
      for (const each of this.#allowances) each.spend(taken)
      this.#paid += taken
    } else {
      this.#timer = setTimeout(
        () => {
          this.#timer = undefined
          this.#pay()
        },
        Math.min(waitMs, lookAgainMs),
      ).unref()
    }
    this.setPaused('rate', waitMs > 0)
  }
}
