import type { Batch } from './write/batch.ts'

/** The only writer of an index database. */
export interface IndexWriter extends AsyncDisposable {
  /**
   * Runs `work` in a transaction of its own: what it throws takes back all of it, and is thrown. Transactions come one
   * after the other. A long one goes over many turns of the event loop; readers see nothing of it before its end, unless
   * `work` splits it.
   */
  write<T>(work: (batch: Batch) => Promise<T>): Promise<T>
  /** Resolves when a power cut takes back nothing of what was written so far. */
  makeDurable(): Promise<void>
}
