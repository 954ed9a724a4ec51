/**
 * Time that passes only when the simulator lets it: calls at later times, one after the other, each followed by all that
 * comes of it. What is due at the same moment is called in the order in which it was asked for.
 */
import { turn } from './real-turn.ts'

interface Call {
  atMs: number
  order: number
  /** Undefined when it was taken back. */
  make: (() => void) | undefined
}

export class VirtualTime {
  #nowMs: number = Date.UTC(2026, 0, 1)
  /** How far the clock of the machine is ahead, in milliseconds. What measures time does not see it. */
  aheadMs = 0
  #orders = 0
  /** A binary heap: no call is due before the one at half its place. */
  readonly #calls: Call[] = []

  get nowMs(): number {
    return this.#nowMs
  }

  after(ms: number, make: () => void): Disposable {
    const call: Call = { atMs: this.#nowMs + Math.max(0, ms), order: this.#orders++, make }
    this.#put(call)
    return { [Symbol.dispose]: () => (call.make = undefined) }
  }

  /** Something that cannot be interrupted takes so long. */
  pass(ms: number): void {
    this.#nowMs += ms
  }

  /** Lets so much time pass, or less: what `isOver` waits for may come sooner. */
  async run(ms: number, isOver: () => boolean = () => false): Promise<void> {
    const untilMs = this.#nowMs + ms
    await turn()
    while (!isOver())
      if (!(await this.#step(untilMs))) return void (this.#nowMs = Math.max(this.#nowMs, untilMs))
  }

  /** Lets time pass until something is over. @throws Error when that takes longer than `msMax`, and what it throws. */
  async until<T>(what: Promise<T>, msMax: number): Promise<T> {
    const state = { isOver: false }
    const over = (): void => void (state.isOver = true)
    what.then(over, over)
    const untilMs = this.#nowMs + msMax
    await turn()
    while (!state.isOver)
      if (!(await this.#step(untilMs))) throw new Error(`something takes more than ${msMax} ms`)
    return await what
  }

  /** Makes the next call that is due by then. False when there is none. */
  async #step(untilMs: number): Promise<boolean> {
    for (let next = this.#calls[0]; next; next = this.#calls[0]) {
      if (next.make && next.atMs > untilMs) return false
      this.#take()
      if (!next.make) continue
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.make()
      await turn()
      return true
    }
    return false
  }

  #put(call: Call): void {
    const calls = this.#calls
    let at = calls.length
    for (; at > 0;) {
      const above = (at - 1) >> 1
      const other = calls[above]
      if (!other || isBefore(other, call)) break
      calls[at] = other
      at = above
    }
    calls[at] = call
  }

  #take(): void {
    const calls = this.#calls
    const last = calls.pop()
    if (!last || calls.length === 0) return
    let at = 0
    for (;;) {
      const [left, right] = [calls[2 * at + 1], calls[2 * at + 2]]
      const next = right && left && isBefore(right, left) ? 2 * at + 2 : 2 * at + 1
      const below = calls[next]
      if (!below || isBefore(last, below)) break
      calls[at] = below
      at = next
    }
    calls[at] = last
  }
}

function isBefore(a: Call, b: Call): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)
}

/** The clock of one process: when the process ends, nothing more is called. */
export class ProcessClock {
  readonly #time: VirtualTime
  readonly #onThrown: (error: unknown) => void
  #isOver = false

  /** @param onThrown told of what a call throws, which ends a process. */
  constructor(time: VirtualTime, onThrown: (error: unknown) => void) {
    this.#time = time
    this.#onThrown = onThrown
  }

  nowMs(): number {
    return this.#time.nowMs + this.#time.aheadMs
  }

  /** The process is gone. */
  get isOver(): boolean {
    return this.#isOver
  }

  elapsedMs(): number {
    return this.#time.nowMs
  }

  after(ms: number, call: () => void): Disposable {
    return this.#time.after(ms, () => {
      if (this.#isOver) return
      try {
        call()
      } catch (error) {
        this.#onThrown(error)
      }
    })
  }

  every(ms: number, call: () => void): Disposable {
    let next: Disposable
    let isOver = false
    const again = (): void => {
      if (isOver) return
      next = this.after(ms, again)
      call()
    }
    next = this.after(ms, again)
    return {
      [Symbol.dispose]: () => {
        isOver = true
        next[Symbol.dispose]()
      },
    }
  }

  end(): void {
    this.#isOver = true
  }
}

/** Tells whole milliseconds, as that of a machine. */
export class MachineClock extends ProcessClock {
  override nowMs(): number {
    return Math.floor(super.nowMs())
  }
}
