import { deferred } from './deferred.ts'

/** How far a source runs ahead. */
export interface AheadLimits<T> {
  /** Items that are pulled and not yet taken, at most. */
  items: number
  /** No item is pulled while those that are not yet taken have this many bytes or more. */
  bytes?: { max: number; of: (item: T) => number }
}

/**
 * Runs a source ahead of its consumer, within limits. Order is kept, and an error of the source comes after the items
 * before it. Leaving the loop aborts `stop`, which must make a source that is waiting give up, and then ends the source.
 */
export async function* readAhead<T>(
  source: AsyncGenerator<T, void>,
  { items, bytes }: AheadLimits<T>,
  stop: AbortController,
): AsyncGenerator<T, void> {
  const held: T[] = []
  let ended = false
  let failure: { error: unknown } | undefined
  let changed = deferred()
  const isFull = (): boolean =>
    held.length >= items ||
    (bytes !== undefined && held.reduce((sum, item) => sum + bytes.of(item), 0) >= bytes.max)
  const announce = (): void => {
    changed.resolve()
    changed = deferred()
  }

  const pump = async (): Promise<void> => {
    try {
      for await (const item of source) {
        held.push(item)
        announce()
        while (isFull() && !stop.signal.aborted) await changed.promise
        if (stop.signal.aborted) break
      }
    } catch (error) {
      failure = { error }
    }
    ended = true
    announce()
  }

  const pumping = pump()
  try {
    for (;;) {
      const taken = held.splice(0, 1)
      if (taken.length > 0) {
        announce()
        yield* taken
      } else if (!ended) {
        await changed.promise
      } else if (failure) {
        throw failure.error
      } else {
        return
      }
    }
  } finally {
    stop.abort()
    announce()
    await pumping
  }
}
