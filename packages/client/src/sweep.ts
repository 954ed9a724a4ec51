import { type ArchiveBatch, type ArchiveReader, readPage } from './archive.ts'
import { ArchiveSizes } from './archive-sizes.ts'
import { DownloadMeter } from './download-meter.ts'
import { StreamError } from './errors.ts'
import { fetchPlan } from './plan.ts'
import { delay, Retries, type RetryPolicy } from './retry.ts'

export interface SweepOptions extends Omit<ArchiveReader, 'onBlock'> {
  /** Exclusive; 0 is everything. */
  afterSeq: number
  /** Inclusive. */
  beforeSeq: number | undefined
  retry: RetryPolicy
  /** Archive bytes that the iteration has read. Every sweep of it adds its own. */
  total: { bytes: number }
}

/**
 * Reads the archive from `afterSeq` to the sealed tip that its first plan names, page by page (segment-format.md 13,
 * step 2), and returns where it ended. What is sealed meanwhile is left to the live stream. Failures that may pass are
 * waited out, and then everything after the last cursor is planned again. Ends early when the signal aborts.
 * @throws StreamError
 */
export async function* sweepArchive(options: SweepOptions): AsyncGenerator<ArchiveBatch, number> {
  const { afterSeq, signal, onStatus } = options
  const retries = new Retries(options.retry)
  let cursor = afterSeq
  let deliveredCursor = afterSeq
  let throughSeq: number | undefined
  let bytes = 0
  let meter: DownloadMeter | undefined
  const reader: ArchiveReader = {
    ...options,
    onBlock: (block) => {
      bytes += block.bytes
      options.total.bytes += block.bytes
      meter?.read(block.segment, block.bytes)
      onStatus({
        type: 'downloading',
        segment: block.segment,
        bytes: options.total.bytes,
        ...(meter?.progress ?? { doneBytes: bytes, totalBytes: undefined }),
        fromSeq: afterSeq,
        cursor: block.cursor,
        throughSeq: throughSeq ?? 0,
      })
    },
  }

  while ((throughSeq === undefined || cursor < throughSeq) && !signal.aborted) {
    try {
      onStatus({ type: 'planning', afterSeq: cursor })
      const range = { afterSeq: cursor, beforeSeq: throughSeq ?? options.beforeSeq }
      const plan = await fetchPlan(options.server, options.filter, range, signal)
      throughSeq ??= Math.min(plan.sealedTipSeq, options.beforeSeq ?? Infinity)
      // Nothing is wanted, whatever the plan names.
      if (throughSeq <= cursor) break
      if (plan.plannedThroughSeq <= cursor) {
        throw new StreamError('ProtocolError', `the plan does not go on from ${cursor}`)
      }
      if (meter === undefined && plan.entries.length > 0) {
        const sizes = await ArchiveSizes.read(options.server, signal)
        if (sizes) meter = new DownloadMeter(sizes)
      }
      meter?.plan(plan, cursor, throughSeq)
      // A server that heeds no beforeSeq plans further than we read.
      const plannedThrough = Math.min(plan.plannedThroughSeq, throughSeq)
      const page = { afterSeq: cursor, throughSeq: plannedThrough }
      for await (const batch of readPage(reader, plan.entries, page)) {
        if (batch.cursor > cursor) retries.progressed()
        cursor = batch.cursor
        if (batch.events.length + batch.gaps.length === 0) continue
        deliveredCursor = cursor
        yield batch
      }
      cursor = Math.max(cursor, plannedThrough)
      // Nothing else up to here can match, so a consumer need not look at it again either.
      if (cursor > deliveredCursor) {
        deliveredCursor = cursor
        yield { events: [], gaps: [], cursor }
      }
      retries.progressed()
    } catch (error) {
      if (signal.aborted) break
      if (!(error instanceof StreamError)) throw error
      const { attempt, delayMs } = retries.failed(error)
      onStatus({
        type: 'reconnecting',
        reason: 'archive-failed',
        detail: error.message,
        delayMs,
        attempt,
        cursor,
      })
      await delay(delayMs, signal)
    }
  }
  return Math.max(throughSeq ?? 0, cursor)
}
