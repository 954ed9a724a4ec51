/**
 * Reading the index: whole states of it, each for a bounded time. A reader never waits for the writer, and a long read
 * does not hold up a short one.
 */
import type { IndexView } from './select/selection.ts'

/** The database is not there yet or its schema is not the one of this version: wait for the index, or update it. */
export class IndexNotReadyError extends Error {
  override readonly name = 'IndexNotReadyError'
}

/** A snapshot was not read within its time. */
export class ReadTimeoutError extends Error {
  override readonly name = 'ReadTimeoutError'
}

/** As many snapshots are being read and are waiting as may be: try again soon. */
export class ReaderBusyError extends Error {
  override readonly name = 'ReaderBusyError'
}

export interface SnapshotOptions {
  /** Time for the whole, with the wait for its turn. */
  readonly timeoutMs: number
  /** Ends the read between two statements; its reason is thrown. */
  readonly signal?: AbortSignal
  /** Whose read it is: a cause has half of the places that are free, and takes turns with others. Default: our own. */
  readonly cause?: string
}

export interface IndexReader extends AsyncDisposable {
  /**
   * Reads from one state of the index.
   * @throws IndexNotReadyError, ReadTimeoutError, ReaderBusyError, and what `read` and the database throw.
   */
  snapshot<T>(options: SnapshotOptions, read: (view: IndexView) => Promise<T>): Promise<T>
}
