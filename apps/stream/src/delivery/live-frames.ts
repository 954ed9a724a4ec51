import type { LiveRun } from './live-run.ts'

/**
 * The messages of a run while it is published. Many groups want the same row, so the view of its message, and the list with
 * that alone, are made once and shared. The views are not kept with the run, which stays in memory much longer.
 */
export class LiveFrames {
  readonly run: LiveRun
  readonly #lists: (readonly number[] | undefined)[] = []
  readonly #single: (readonly [Uint8Array] | undefined)[] = []

  constructor(run: LiveRun) {
    this.run = run
  }

  /** The list with one row, made once. */
  only(row: number): readonly number[] {
    return (this.#lists[row] ??= [row])
  }

  /** The messages of rows in ascending order. Neighbours are one view. */
  framesOf(rows: readonly number[]): readonly Uint8Array[] {
    const [only] = rows
    if (rows.length === 1 && only !== undefined) return this.#frameOf(only)
    const frames: Uint8Array[] = []
    for (let from = 0; from < rows.length;) {
      const first = rows[from] ?? 0
      let end = first + 1
      while (rows[from + end - first] === end) end++
      frames.push(end - first === 1 ? this.#frameOf(first)[0] : this.run.framesBetween(first, end))
      from += end - first
    }
    return frames
  }

  #frameOf(row: number): readonly [Uint8Array] {
    return (this.#single[row] ??= [this.run.frameAt(row)])
  }
}
