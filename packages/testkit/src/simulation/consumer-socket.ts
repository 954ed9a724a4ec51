/** The socket of a consumer as its server has it: what is written is taken at once, piece by piece, or not at all. */
import { Duplex } from 'node:stream'
import type { Random } from '../random.ts'
import type { ProcessClock } from './virtual-time.ts'

/**
 * How a consumer reads: the kernel takes all at once, one write after the other, one write in seconds, or nothing. A
 * `mute` one takes all, and answers no ping.
 */
export type Pace = 'fast' | 'slow' | 'crawling' | 'stuck' | 'mute'

/** Bytes above which the writer is told to wait: a few messages. */
const highWaterMark = 6000
/** How long bytes are on their way at most. */
const wayMsMax = 20
/** How long a write takes to be taken at most. */
const takeMsMax = { slow: 400, crawling: 12_000 }

export interface ConsumerSocketOptions {
  clock: ProcessClock
  random: Random
  /**
   * Bytes have arrived, in order.
   * @param writtenAtMs when they were written.
   */
  onBytes: (bytes: Buffer, writtenAtMs: number) => void
  /** Bytes are written. They may arrive much later. */
  onWritten: (bytes: Buffer) => void
  /** A write that had to wait was taken just now. */
  onTaken: () => void
}

export class ConsumerSocket extends Duplex {
  readonly #options: ConsumerSocketOptions
  #pace: Pace
  #lastMs = 0
  /** When each write was made that has not arrived at `_write`, the oldest first. */
  readonly #writtenAtMs: number[] = []
  /** Takes the write that is under way. */
  #take: (() => void) | undefined
  /** When it took something last, or began. */
  takenAtMs: number
  /** Since when it has been reading as it does. */
  paceSinceMs: number

  constructor(pace: Pace, options: ConsumerSocketOptions) {
    super({ highWaterMark })
    this.#pace = pace
    this.#options = options
    this.takenAtMs = this.paceSinceMs = options.clock.elapsedMs()
  }

  get pace(): Pace {
    return this.#pace
  }

  set pace(pace: Pace) {
    this.#pace = pace
    this.paceSinceMs = this.#options.clock.elapsedMs()
    this.#takeLater()
  }

  /** As a socket of Node has it: bytes of the write that is under way, and of all so far. What comes after it waits in the stream. */
  readonly _handle: { writeQueueSize: number; bytesWritten: number } = { writeQueueSize: 0, bytesWritten: 0 }

  /** As a socket of Node has it. */
  setNoDelay(): this {
    return this
  }

  override write(chunk: unknown, ...rest: unknown[]): boolean {
    this.#writtenAtMs.push(this.#options.clock.elapsedMs())
    this.#options.onWritten(chunk as Buffer) // nobody writes text to it
    return super.write(chunk, ...(rest as [BufferEncoding])) // as it was called
  }

  override _read(): void {}

  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    const { onTaken } = this.#options
    const writtenAtMs = this.#writtenAtMs.shift() ?? 0
    this._handle.bytesWritten += chunk.length
    if (this.#pace === 'fast' || this.#pace === 'mute') {
      this.#arrive(chunk, writtenAtMs)
      return done()
    }
    this._handle.writeQueueSize = chunk.length
    // The memory is read when the write is taken, as a kernel does.
    this.#take = () => {
      this.#take = undefined
      if (this.destroyed) return
      this._handle.writeQueueSize = 0
      this.#arrive(chunk, writtenAtMs)
      done()
      onTaken()
    }
    this.#takeLater()
  }

  #takeLater(): void {
    const take = this.#take
    if (!take || this.#pace === 'stuck') return
    const { clock, random } = this.#options
    const msMax = { fast: 0, mute: 0, ...takeMsMax }[this.#pace]
    clock.after(random.next() * msMax, () => {
      if (this.#take === take && this.#pace !== 'stuck') take()
    })
  }

  #arrive(chunk: Buffer, writtenAtMs: number): void {
    const { clock, random, onBytes } = this.#options
    const bytes = Buffer.from(chunk)
    const nowMs = clock.elapsedMs()
    this.takenAtMs = nowMs
    this.#lastMs = Math.max(this.#lastMs, nowMs + random.next() * wayMsMax)
    clock.after(this.#lastMs - nowMs, () => {
      if (!this.destroyed) onBytes(bytes, writtenAtMs)
    })
  }
}
