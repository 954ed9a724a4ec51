import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../src/clock.ts'

/** A clock that a test moves on. */
export class TestClock implements Clock {
  #nowMs: number
  readonly #calls = new Set<{ everyMs: number; nextMs: number; call: () => void }>()

  constructor(nowMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = nowMs
  }

  /** Sets the time back, or ahead where that is below 0. What was to be called in a while is called in that while. */
  setBack(ms: number): void {
    this.#nowMs -= ms
    for (const entry of this.#calls) entry.nextMs -= ms
  }

  nowMs(): number {
    return this.#nowMs
  }

  every(everyMs: number, call: () => void): Disposable {
    const entry = { everyMs, nextMs: this.#nowMs + everyMs, call }
    this.#calls.add(entry)
    return { [Symbol.dispose]: () => this.#calls.delete(entry) }
  }

  after(ms: number, call: () => void): Disposable {
    const timer = this.every(ms, () => {
      timer[Symbol.dispose]()
      call()
    })
    return timer
  }

  async sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve))
  }

  /** Lets time pass, with every call at its time and everything done that follows from it. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    for (;;) {
      await setImmediate()
      const next = [...this.#calls].toSorted((a, b) => a.nextMs - b.nextMs)[0]
      if (!next || next.nextMs > untilMs) break
      this.#nowMs = next.nextMs
      next.nextMs += next.everyMs
      next.call()
    }
    this.#nowMs = untilMs
  }
}
