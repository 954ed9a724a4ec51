import type { LiveRun } from './live-run.ts'
import { renderedAs, type Rendition } from './rendition.ts'

/** Rows of which every piece of neighbours is kept as one view: with more, few groups want the same piece. */
const rowsOfTable = 64

/**
 * The messages of runs while they are published, as one sequence of rows. Many groups want the same rows, so that views of
 * their messages are made once and shared. The views are not kept with the runs, which stay in memory much longer.
 */
export class LiveFrames {
  readonly count: number
  readonly firstSeq: number
  readonly lastSeq: number
  /** All messages, one behind the other. */
  readonly frames: Uint8Array
  readonly #places: { run: LiveRun; i: number }[] = []
  /** Where each row ends in `frames`. */
  readonly #ends: number[] = []
  readonly #lists: (readonly number[] | undefined)[] = []
  readonly #views: (Uint8Array | undefined)[] = []

  /** @param runs at least one, in seq order. */
  constructor(runs: readonly LiveRun[]) {
    let start = 0
    for (const run of runs) {
      for (let i = 0; i < run.count; i++) {
        this.#places.push({ run, i })
        this.#ends.push(start + run.endAt(i))
      }
      start += run.frames.length
    }
    const [only] = runs
    this.frames = only && runs.length === 1 ? only.frames : Buffer.concat(runs.map(({ frames }) => frames))
    this.count = this.#places.length
    this.firstSeq = only?.firstSeq ?? 0
    this.lastSeq = runs.at(-1)?.lastSeq ?? 0
  }

  /** The list with one row, made once. */
  only(row: number): readonly number[] {
    return (this.#lists[row] ??= [row])
  }

  /** The messages of rows in ascending order. Neighbours are one view. */
  framesOf(rows: readonly number[]): Uint8Array[] {
    const frames: Uint8Array[] = []
    for (let from = 0; from < rows.length;) {
      const first = rows[from] ?? 0
      let end = first + 1
      while (rows[from + end - first] === end) end++
      frames.push(this.#viewOf(first, end))
      from += end - first
    }
    return frames
  }

  /** The message of a row, written in another way. Empty for a row that has none. */
  renderedAt(row: number, rendition: Rendition): Uint8Array {
    const { run, i } = this.#placeOf(row)
    return renderedAs(run, rendition).frameAt(i)
  }

  /** Bytes of that message before it is compressed. */
  messageBytesAt(row: number, rendition: Rendition): number {
    const { run, i } = this.#placeOf(row)
    return renderedAs(run, rendition).messageBytesAt(i)
  }

  #viewOf(first: number, end: number): Uint8Array {
    if (this.count > rowsOfTable) return this.#viewBetween(first, end)
    return (this.#views[first * rowsOfTable + end - 1] ??= this.#viewBetween(first, end))
  }

  #viewBetween(first: number, end: number): Uint8Array {
    return this.frames.subarray(this.#ends[first - 1] ?? 0, this.#ends[end - 1])
  }

  #placeOf(row: number): { run: LiveRun; i: number } {
    const place = this.#places[row]
    if (!place) throw new RangeError(`there is no row ${row} of ${this.count}`)
    return place
  }
}
