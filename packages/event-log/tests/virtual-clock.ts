import type { Clock } from '../src/clock.ts'

/** A clock that only a test moves. */
export class VirtualClock implements Clock {
  #wallMs: number
  #elapsedMs = 0

  constructor(wallMs: number = Date.UTC(2026, 0, 1)) {
    this.#wallMs = wallMs
  }

  wallMs = (): number => this.#wallMs
  elapsedMs = (): number => this.#elapsedMs

  /** Lets real time pass. */
  pass(ms: number): void {
    this.#wallMs += ms
    this.#elapsedMs += ms
  }

  /** Sets the date, as an operator or a time server does: no time passes. */
  setWall(wallMs: number): void {
    this.#wallMs = wallMs
  }

  /** A clock of the same machine after a restart, and after a while in which nothing ran. */
  restarted(downMs: number): VirtualClock {
    return new VirtualClock(this.#wallMs + downMs)
  }
}
