import type { StreamBatch } from '../batch.ts'
import type { ReplayOptions } from '../client.ts'
import { joinBatches } from './join-batches.ts'
import type { RunnerReport } from './run-indexer.ts'

/** A database that keeps the cursor with what is made of the events. */
export interface BatchStore {
  /** The cursor that was written last, undefined before the first. */
  load(): Promise<number | undefined>
  /**
   * Writes what the events mean, and the cursor of the batch, in one transaction. Resolves once that is durable. Called with
   * one batch after the other, in order. Events may be views of a block: `plainEvent` makes objects of those to be kept.
   */
  write(batch: StreamBatch): Promise<void>
}

export interface BatchRunnerOptions {
  client: { replay(options: ReplayOptions): AsyncGenerator<StreamBatch, void> }
  store: BatchStore
  /** Told of what is missing in a batch, before the batch is written. Called synchronously, and must not throw. */
  onReport: (report: Extract<RunnerReport, { type: 'gap' }>) => void
  /** What is asked of the stream. Default: all of it. */
  read?: Omit<ReplayOptions, 'cursor' | 'signal'>
  /** Ends the run after the batch that is being written. */
  signal?: AbortSignal
}

/**
 * Reads the stream from the stored cursor on, and has whole batches written, each with its cursor: whenever the process is
 * killed, each event counts once. Batches of the archive are joined, up to 20,000 events. Resolves when the signal aborts, or
 * when everything up to `read.throughSeq` is written.
 * @throws what the store throws, and what ends the stream (`StreamError`).
 */
export async function runBatches(options: BatchRunnerOptions): Promise<void> {
  const { client, store, onReport, read, signal = new AbortController().signal } = options
  const cursor = (await store.load()) ?? 0
  const batches = joinBatches((until) => client.replay({ ...read, cursor, signal: until }), signal)
  for await (const batch of batches) {
    for (const gap of batch.gaps) onReport({ type: 'gap', gap })
    await store.write(batch)
    // The store may have left a part of the batch, so that the next one must not follow it.
    if (signal.aborted) return
  }
}
