import type { CatchUp } from '@tributary/fanout'
import { firstIndex } from './first-index.ts'
import { collect, readEndMs, type Wants } from './frame-run.ts'
import type { LiveRun } from './live-run.ts'
import { ownRendition, renderedAs, type Rendition } from './rendition.ts'

/** Rows that one read looks at, so that a filter which matches little cannot hold the event loop. */
const rowsPerRead = 4096

/**
 * The newest rows as finished messages. It always covers every visible row that is not in a block of the archive yet;
 * rows that are in one stay as long as the bound of bytes allows.
 */
export class MemoryTail {
  readonly #bytesMax: number
  #runs: (LiveRun | undefined)[] = []
  /** Index of the oldest run that counts; those before it are gone, and their places are cleared in one go. */
  #start = 0
  #bytes = 0
  #floorSeq: number
  #headSeq: number
  #blockSeq: number

  /** @param afterSeq the newest row in a block: the tail begins after it. */
  constructor(bytesMax: number, afterSeq: number) {
    this.#bytesMax = bytesMax
    this.#floorSeq = afterSeq
    this.#headSeq = afterSeq
    this.#blockSeq = afterSeq
  }

  /** The newest visible seq. */
  get headSeq(): number {
    return this.#headSeq
  }

  /** The tail holds every visible row above this seq. */
  get floorSeq(): number {
    return this.#floorSeq
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether rows that no block has take more than the bound. Lets go of others first. */
  isFull(): boolean {
    this.#evict()
    return this.#bytes > this.#bytesMax
  }

  push(run: LiveRun): void {
    this.#runs.push(run)
    this.#bytes += run.bytes
    // What is too much by then goes with the next run, so that no run goes while it is read.
    run.onKept = (bytes) => {
      this.#bytes += bytes
    }
    this.#headSeq = run.lastSeq
    this.#evict()
  }

  /** Every row up to `seq` can now be read from a block. */
  coveredByBlocks(seq: number): void {
    this.#blockSeq = seq
    this.#evict()
  }

  /** Lets go of everything that can be read from blocks. */
  forgetCovered(): void {
    this.#evict(0)
  }

  /**
   * What stands after a position, about `maxBytes` of it, out of a bounded number of rows and found within two
   * milliseconds, however many runs they are in.
   * Undefined when the tail does not reach back that far.
   */
  read(
    afterSeq: number,
    wants: Wants,
    maxBytes: number,
    rendition: Rendition = ownRendition,
  ): CatchUp | undefined {
    if (afterSeq < this.#floorSeq) return undefined
    const frames: Uint8Array[] = []
    let lastSeq = afterSeq
    let bytes = 0
    let rows = 0
    const endMs = readEndMs()
    const first = this.#firstRunAfter(afterSeq)
    for (let i = first; bytes < maxBytes && rows < rowsPerRead; i++) {
      const run = this.#runs[i]
      // A run may have one row, of which each costs as much as a read may.
      if (!run || (i > first && performance.now() >= endMs)) break
      const found = collect(renderedAs(run, rendition), lastSeq, wants, maxBytes - bytes, endMs)
      for (const frame of found.frames) bytes += frame.length
      rows += run.count
      frames.push(...found.frames)
      lastSeq = found.lastSeq
      if (lastSeq < run.lastSeq) break
    }
    return { frames, lastSeq }
  }

  /** The first seq of the tail that was witnessed at or after a time; the next one to come when there is none. */
  seqWitnessedAt(micros: number): number {
    for (let i = this.#start; i < this.#runs.length; i++) {
      const run = this.#runs[i]
      if (!run || run.witnessedAtAt(run.count - 1) < micros) continue
      return run.seqAt(firstIndex(0, run.count, (row) => run.witnessedAtAt(row) >= micros))
    }
    return this.#headSeq + 1
  }

  /** When the oldest row of the tail was witnessed. */
  get oldestWitnessedAt(): number | undefined {
    return this.#runs[this.#start]?.witnessedAtAt(0)
  }

  #evict(bytesMax = this.#bytesMax): void {
    for (let oldest = this.#runs[this.#start]; oldest && this.#bytes > bytesMax;) {
      if (oldest.lastSeq > this.#blockSeq) break
      this.#bytes -= oldest.bytes
      oldest.onKept = () => {}
      this.#floorSeq = oldest.lastSeq
      this.#runs[this.#start++] = undefined
      oldest = this.#runs[this.#start]
    }
    if (this.#start > 64 && this.#start > this.#runs.length / 2) {
      this.#runs = this.#runs.slice(this.#start)
      this.#start = 0
    }
  }

  #firstRunAfter(seq: number): number {
    return firstIndex(this.#start, this.#runs.length, (i) => (this.#runs[i]?.lastSeq ?? 0) > seq)
  }
}
