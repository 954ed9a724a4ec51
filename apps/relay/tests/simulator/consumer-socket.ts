/** The socket of a consumer as its server has it: what is written is taken at once, piece by piece, or not at all. */
import { Duplex } from 'node:stream'
import type { Random } from '@tributary/testkit/disk'
import type { Clock } from '../../src/clock.ts'

/** How a consumer reads: the kernel takes all at once, one write after the other, or nothing. */
export type Pace = 'fast' | 'slow' | 'stuck'

/** Bytes above which the writer is told to wait: a few messages. */
const highWaterMark = 6000
/** How long bytes are on their way, and how long a slow consumer takes for a write, at most. */
const wayMsMax = 20
const takeMsMax = 400

export interface ConsumerSocketOptions {
  clock: Clock
  random: Random
  /**
   * Bytes have arrived, in order.
   * @param writtenAtMs when they were written. Undefined when other bytes were in their way.
   */
  onBytes: (bytes: Buffer, writtenAtMs: number | undefined) => void
  /** A write that had to wait was taken just now. */
  onTaken: () => void
}

export class ConsumerSocket extends Duplex {
  readonly #options: ConsumerSocketOptions
  #pace: Pace
  #lastMs = 0
  /** Bytes wait here that were written before. */
  #isBehind = false
  /** The write that a stuck consumer does not take. */
  #stuck: (() => void) | undefined

  constructor(pace: Pace, options: ConsumerSocketOptions) {
    super({ highWaterMark })
    this.#pace = pace
    this.#options = options
  }

  get pace(): Pace {
    return this.#pace
  }

  set pace(pace: Pace) {
    this.#pace = pace
    const stuck = this.#stuck
    this.#stuck = undefined
    if (pace === 'stuck') this.#stuck = stuck
    else stuck?.()
  }

  /** As a socket of Node has it. */
  setNoDelay(): this {
    return this
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    const { clock, random, onTaken } = this.#options
    if (this.#pace === 'fast') {
      this.#arrive(chunk, this.#isBehind ? undefined : clock.nowMs())
      return done()
    }
    this.#isBehind = true
    // The memory is read when the write is taken, as a kernel does.
    const take = (): void => {
      if (this.destroyed) return
      this.#arrive(chunk, undefined)
      done()
      this.#isBehind = this.writableLength > 0
      onTaken()
    }
    const later = (): void => void clock.after(random.next() * takeMsMax, take)
    if (this.#pace === 'stuck') this.#stuck = later
    else later()
  }

  #arrive(chunk: Buffer, writtenAtMs: number | undefined): void {
    const { clock, random, onBytes } = this.#options
    const bytes = Buffer.from(chunk)
    const nowMs = clock.nowMs()
    this.#lastMs = Math.max(this.#lastMs, nowMs + random.next() * wayMsMax)
    clock.after(this.#lastMs - nowMs, () => {
      if (!this.destroyed) onBytes(bytes, writtenAtMs)
    })
  }
}
