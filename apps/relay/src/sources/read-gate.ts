import type { EventBucket } from './event-bucket.ts'

/**
 * Why a source is not read at the moment: the pipeline is full, the disk is, it has used up its rate, or the DID
 * documents of too many of its accounts are not read yet.
 */
export type PauseReason = 'backlog' | 'disk-floor' | 'rate' | 'identities'

/** Events that are taken from the buckets at a time, so that most events cost one subtraction. */
const takenAtOnce = 32

/**
 * Says when a source may be read. Nothing is dropped here: what is not read waits at its host.
 * What was read already when a pause begins still passes, and is paid for before the next.
 */
export class ReadGate {
  readonly #buckets: readonly EventBucket[]
  readonly #onChange: (reason: PauseReason | undefined) => void
  readonly #reasons = new Set<PauseReason>()
  #paid = 0
  #timer: NodeJS.Timeout | undefined

  /** @param onChange told of the first reason there is, and of none. */
  constructor(buckets: readonly EventBucket[], onChange: (reason: PauseReason | undefined) => void) {
    this.#buckets = buckets
    this.#onChange = onChange
  }

  get isPaused(): boolean {
    return this.#reasons.size > 0
  }

  /** Counts an event that was read. */
  pass(): void {
    this.#paid--
    if (this.#paid < 0 && this.#timer === undefined) this.#pay()
  }

  setPaused(reason: PauseReason, isPaused: boolean): void {
    const before = this.#first()
    if (isPaused) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
    if (this.#first() !== before) this.#onChange(this.#first())
  }

  close(): void {
    clearTimeout(this.#timer)
  }

  #first(): PauseReason | undefined {
    return this.#reasons.values().next().value
  }

  #pay(): void {
    const owed = -this.#paid
    const waitMs = Math.max(...this.#buckets.map((bucket) => bucket.waitMsFor(owed)))
    if (waitMs === 0) {
      const more = Math.min(takenAtOnce, ...this.#buckets.map(({ available }) => available - owed))
      const taken = owed + Math.max(0, more)
      for (const bucket of this.#buckets) bucket.spend(taken)
      this.#paid += taken
    } else {
      this.#timer = setTimeout(() => {
        this.#timer = undefined
        this.#pay()
      }, waitMs).unref()
    }
    this.setPaused('rate', waitMs > 0)
  }
}
