/** Waiting between attempts: the one place where the client decides how long, and whether to give up. */
import { deferred } from './deferred.ts'
import { StreamError } from './errors.ts'

export interface RetryPolicy {
  /** The first wait and the longest, in milliseconds. Defaults 250 and 30,000; each wait doubles. */
  firstMs: number
  maxMs: number
  /** Failures in a row, without any progress between them, after which the last one is thrown. Default: no limit. */
  attemptsMax: number
  /** Milliseconds without any progress after which the last failure is thrown. Default: no limit. */
  giveUpMs: number
}

export const defaultRetry: RetryPolicy = {
  firstMs: 250,
  maxMs: 30_000,
  attemptsMax: Infinity,
  giveUpMs: Infinity,
}

/** A server may ask for a longer wait than this, and is asked again after it all the same. */
const retryAfterMsMax = 3_600_000

/** Counts failures since the last progress. */
export class Retries {
  #failures = 0
  #progressedAt = performance.now()
  readonly #policy: RetryPolicy

  constructor(policy: RetryPolicy) {
    this.#policy = policy
  }

  /** The next failure starts again at the shortest wait. */
  progressed(): void {
    this.#failures = 0
    this.#progressedAt = performance.now()
  }

  /**
   * How long to wait after this failure, and its number.
   * @throws the error itself when it is not worth another attempt.
   */
  failed(error: StreamError): { attempt: number; delayMs: number } {
    const attempt = ++this.#failures
    if (!error.retryable || attempt >= this.#policy.attemptsMax) throw error
    const leftMs = this.#progressedAt + this.#policy.giveUpMs - performance.now()
    if (leftMs <= 0) throw error
    const delayMs = backoffMs(this.#policy, attempt)
    const asked = Math.max(delayMs, Math.min(error.retryAfterMs ?? 0, retryAfterMsMax))
    return { attempt, delayMs: Math.min(asked, Math.ceil(leftMs)) }
  }
}

/** How long to wait after so many failures, in milliseconds. */
export function backoffMs(
  { firstMs, maxMs }: Pick<RetryPolicy, 'firstMs' | 'maxMs'>,
  failures: number,
): number {
  const full = Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30))
  // The upper quarter is random, so that clients of one server spread.
  return Math.round(full * (0.75 + Math.random() / 4))
}

/** The result of `call`, tried again while that can help. Throws what the last attempt threw. */
export async function withRetries<T>(
  policy: RetryPolicy,
  signal: AbortSignal,
  call: () => Promise<T>,
): Promise<T> {
  for (const retries = new Retries(policy); ;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof StreamError) || signal.aborted) throw error
      await delay(retries.failed(error).delayMs, signal)
    }
  }
}

/** Resolves after `delayMs`, or at once when the signal aborts. */
export async function delay(delayMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const { promise, resolve } = deferred()
  const timer = setTimeout(resolve, delayMs)
  const onAbort = (): void => resolve()
  signal.addEventListener('abort', onAbort, { once: true })
  await promise
  clearTimeout(timer)
  signal.removeEventListener('abort', onAbort)
}
