/** Resolves after `ms`, or at once when a signal aborts. Never rejects. */
export async function pause(ms: number, ...signals: AbortSignal[]): Promise<void> {
  const signal = AbortSignal.any(signals)
  if (signal.aborted) return
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const onAbort = (): void => resolve()
  signal.addEventListener('abort', onAbort, { once: true })
  await promise
  clearTimeout(timer)
  signal.removeEventListener('abort', onAbort)
}

/** A wait that doubles with each failure up to `maxMs`; the upper half is random, so that waiters spread. */
export function backoffMs(failures: number, { firstMs, maxMs }: { firstMs: number; maxMs: number }): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.min(failures, 30))
  return Math.round(full * (0.5 + Math.random() / 2))
}
