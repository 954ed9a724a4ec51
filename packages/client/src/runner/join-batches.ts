/**
 * Joins the batches of an archive. A transaction writes each page of the database that it changes once, and neighbouring
 * records come in no order, so that few large transactions write much less than many small ones. Live batches go on as they
 * come.
 */
import type { StreamBatch } from '../batch.ts'
import { deferred } from '../deferred.ts'

/** Events that are joined. Their blocks are in memory until then: of rows with 400 bytes some 10 MB. */
const joinedEventsMax = 20_000
/** Batches of an archive end before they have so many events only if their records are large: then they are not joined. */
const fullBatchEvents = 1000
/** Batches that wait are handed on when the next one does not come within this time. */
const joinWaitMs = 200

/** Before it throws what `read` throws, it hands on what came before. @param read ends when its signal aborts */
export async function* joinBatches(
  read: (signal: AbortSignal) => AsyncIterable<StreamBatch>,
  signal: AbortSignal,
): AsyncGenerator<StreamBatch, void> {
  const over = new AbortController()
  const batches = read(AbortSignal.any([signal, over.signal]))[Symbol.asyncIterator]()
  let pending: Promise<IteratorResult<StreamBatch>> | undefined
  try {
    for (;;) {
      const first = await (pending ?? batches.next())
      pending = undefined
      if (first.done === true) return
      const joined = [first.value]
      let [last, count] = [first.value, first.value.events.length]
      while (!last.live && last.events.length >= fullBatchEvents && count < joinedEventsMax) {
        pending = batches.next()
        const next = await within(joinWaitMs, pending)
        if (next === undefined || next.done === true) break
        pending = undefined
        last = next.value
        joined.push(last)
        count += last.events.length
      }
      yield {
        ...last,
        events: joined.flatMap(({ events }) => events),
        gaps: joined.flatMap(({ gaps }) => gaps),
      }
    }
  } finally {
    over.abort()
    await pending?.catch(() => undefined) // nobody waits for it any more
    await batches.return?.()
  }
}

/** Undefined when it takes longer than that, or rejects: whoever waits for it then is told why. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  const { promise: late, resolve } = deferred()
  const timer = setTimeout(resolve, ms)
  const settled = promise.catch(() => undefined)
  try {
    return (await Promise.race([settled, late])) ?? undefined
  } finally {
    clearTimeout(timer)
  }
}
