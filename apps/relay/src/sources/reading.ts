import type { PauseReason } from './read-gate.ts'

/** A source that is read and has sent nothing for so long has nothing more to send. */
const caughtUpAfterMs = 10_000
/** A connection that ends sooner, and brought nothing, was none. */
const usefulAfterMs = 10_000
/** A full pipeline and its like are over in moments; a pause of this length is worth telling. */
const lastingPauseMs = 10_000

/** What came of a source, as noted where it comes. */
export interface Heard {
  /** When the last message came. */
  readonly lastEventAtMs: number
  /** How old messages are when they come, as of the last looks. */
  readonly eventAgeMs: number
}

/**
 * Whether a source is read at the moment: whether its connection is open, and why its reading is paused. From that
 * follows how far what we have of it is behind.
 */
export class Reading {
  readonly #heard: Heard
  readonly #nowMs: () => number
  #isOpen = false
  #openedAtMs = 0
  /** When there was a useful connection last. Since the start, if there was none. */
  #lastOpenMs: number
  #pause: PauseReason | undefined
  #pausedAtMs = 0
  #resumedAtMs = 0
  /** Since when it has been read without a break. */
  #readSinceMs: number | undefined
  /** While it is not read: everything that it sent until then is known. */
  #caughtUpAtMs: number

  /** @param caughtUpAtMs up to when everything is known that the source sent. */
  constructor(heard: Heard, nowMs: () => number, caughtUpAtMs: number) {
    this.#heard = heard
    this.#nowMs = nowMs
    this.#lastOpenMs = nowMs()
    this.#caughtUpAtMs = caughtUpAtMs
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** From now on it is dialled, so that it counts from now how long it is away. */
  expect(): void {
    this.#lastOpenMs = this.#nowMs()
  }

  open(): void {
    this.#isOpen = true
    this.#openedAtMs = this.#nowMs()
    this.#update()
  }

  close(): void {
    const nowMs = this.#nowMs()
    const hasHeard = this.#heard.lastEventAtMs >= this.#openedAtMs
    if (hasHeard || nowMs - this.#openedAtMs >= usefulAfterMs) this.#lastOpenMs = nowMs
    this.#isOpen = false
    this.#update()
  }

  /** Stops the reading for a reason, or takes it up again. */
  setPause(reason: PauseReason | undefined): void {
    const nowMs = this.#nowMs()
    // A rate lets messages through in bursts, which is one pause.
    const goesOn = this.#pause !== undefined || nowMs - this.#resumedAtMs < lastingPauseMs
    if (reason === undefined) this.#resumedAtMs = nowMs
    else if (!goesOn) this.#pausedAtMs = nowMs
    this.#pause = reason
    this.#update()
  }

  /** How long there has been no connection; 0 while there is one. */
  get awayMs(): number {
    const nowMs = this.#nowMs()
    this.#notAfter(nowMs)
    return this.#isOpen ? 0 : nowMs - this.#lastOpenMs
  }

  /** How long nothing has come on the open connection. */
  get quietMs(): number {
    return this.#nowMs() - Math.max(this.#heard.lastEventAtMs, this.#openedAtMs)
  }

  /** Why it is not read: its rate or the disk at once, anything else once it lasts. */
  get pauseReason(): PauseReason | undefined {
    const reason = this.#pause
    if (reason === 'rate' || reason === 'disk-floor') return reason
    const nowMs = this.#nowMs()
    this.#notAfter(nowMs)
    return nowMs - this.#pausedAtMs >= lastingPauseMs ? reason : undefined
  }

  /**
   * How far what we have of it is behind what it sent. While it is read this is how old its messages are when they
   * come, and 0 once it has nothing more; from when it is not read it grows with the clock.
   */
  get lagMs(): number {
    this.#notAfter(this.#nowMs())
    return Math.max(0, this.#readSinceMs === undefined ? this.#unreadMs : this.#readLagMs(this.#readSinceMs))
  }

  /** Everything is known that it sent until then. */
  get caughtUpAtMs(): number {
    return this.#nowMs() - this.lagMs
  }

  get #unreadMs(): number {
    return this.#nowMs() - this.#caughtUpAtMs
  }

  /** After the date was set back, what began at a date to come counts as begun now: an outage must show. */
  #notAfter(nowMs: number): void {
    this.#lastOpenMs = Math.min(this.#lastOpenMs, nowMs)
    this.#pausedAtMs = Math.min(this.#pausedAtMs, nowMs)
    this.#caughtUpAtMs = Math.min(this.#caughtUpAtMs, nowMs)
    if (this.#readSinceMs !== undefined) this.#readSinceMs = Math.min(this.#readSinceMs, nowMs)
  }

  #readLagMs(sinceMs: number): number {
    const { lastEventAtMs, eventAgeMs } = this.#heard
    const nowMs = this.#nowMs()
    // An event of a date to come was dated by a clock that was ahead. Nothing has come since the clock was set back.
    if (lastEventAtMs > nowMs || nowMs - Math.max(lastEventAtMs, sinceMs) > caughtUpAfterMs) return 0
    return lastEventAtMs >= sinceMs ? eventAgeMs : this.#unreadMs
  }

  #update(): void {
    const isRead = this.#isOpen && this.#pause === undefined
    if (isRead === (this.#readSinceMs !== undefined)) return
    const nowMs = this.#nowMs()
    if (isRead) this.#readSinceMs = nowMs
    else {
      this.#caughtUpAtMs = nowMs - this.lagMs
      this.#readSinceMs = undefined
    }
  }
}
