import { deferred } from './deferred.ts'

/**
 * Runs a source ahead of its consumer: at most `limit` items are pulled and not yet taken. Order is kept, and an
 * error of the source comes after the items before it. Leaving the loop aborts `stop`, which must make a source that
 * is waiting give up, and then ends the source.
 */
export async function* readAhead<T>(
  source: AsyncGenerator<T, void>,
  limit: number,
  stop: AbortController,
): AsyncGenerator<T, void> {
  const held: T[] = []
  let ended = false
  let failure: { error: unknown } | undefined
  let changed = deferred()
  const announce = (): void => {
    changed.resolve()
    changed = deferred()
  }

  const pump = async (): Promise<void> => {
    try {
      for await (const item of source) {
        held.push(item)
        announce()
        while (held.length >= limit && !stop.signal.aborted) await changed.promise
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
