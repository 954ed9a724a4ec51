/**
 * Puts what programs take from Node without asking under a simulator: timers, turns of the event loop, the time that has
 * passed, and chance. For parts that have no clock of their own.
 */
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'
import type { Random } from '../random.ts'
import type { ProcessClock, VirtualTime } from './virtual-time.ts'

export interface VirtualGlobalsOptions {
  time: VirtualTime
  random: Random
  /** Milliseconds that pass between two looks at the time, so that work in turns gives up its turn. */
  lookMs: number
}

/** How long others have a turn at most. */
const turnMsMax = 3

/** They are as they were when this is disposed of. */
export class VirtualGlobals implements Disposable {
  /** Of the process that runs now: its timers end with it. Its turns do not, so that what it has begun can end. */
  clock: Pick<ProcessClock, 'after'>
  readonly #before = {
    setTimeout,
    clearTimeout,
    setImmediate,
    turn: timers.setImmediate,
    random: Math.random,
  }
  #looks = 0

  constructor({ time, random, lookMs }: VirtualGlobalsOptions) {
    this.clock = time
    const later = (call: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): Disposable =>
      this.clock.after(ms, () => call(...args))
    const atTurn = (call: (...args: unknown[]) => void, ...args: unknown[]): Disposable =>
      time.after(random.next() * turnMsMax, () => call(...args))
    const turn = async (): Promise<void> => await new Promise<void>((resolve) => void atTurn(() => resolve()))
    const now = (): number => time.nowMs + lookMs * this.#looks++
    Object.assign(globalThis, {
      setTimeout: later,
      // Reads wait for their turns by it. Virtual time would run out before they have had them.
      setImmediate: atTurn,
      clearTimeout: (timer: Disposable | undefined) => timer?.[Symbol.dispose](),
    })
    Object.assign(timers, { setImmediate: turn })
    syncBuiltinESMExports()
    Object.defineProperty(performance, 'now', { value: now, configurable: true })
    Math.random = () => random.next()
  }

  [Symbol.dispose](): void {
    const { random, turn, ...global } = this.#before
    Object.assign(globalThis, global)
    Object.assign(timers, { setImmediate: turn })
    syncBuiltinESMExports()
    Math.random = random
    // What was hidden is seen again.
    Reflect.deleteProperty(performance, 'now')
  }
}
