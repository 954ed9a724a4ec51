import { KeyedBucket } from '@tributary/rates'
import { networkOf, XrpcError } from '@tributary/xrpc'

/** Networks whose calls are counted. Forgetting one lets a few calls through. */
const callersMax = 10_000

/** Refuses calls of a network that calls too often. */
export type CallerRate = (address: string, nowMs: number) => void

/**
 * Limits how often each network (`networkOf`) may call. With 0 for `perMinute` nothing is limited.
 * The result throws XrpcError 429 `RateLimitExceeded` with `Retry-After`.
 */
export function createCallerRate({ perMinute, burst }: { perMinute: number; burst: number }): CallerRate {
  if (perMinute === 0) return () => undefined
  const calls = new KeyedBucket<string>({ perMinute, burst, keysMax: callersMax })
  return (address, nowMs) => {
    const waitMs = calls.take(networkOf(address), nowMs)
    if (waitMs === 0) return
    throw new XrpcError(
      429,
      'RateLimitExceeded',
      `${perMinute} calls a minute are allowed. Call again later.`,
      {
        'Retry-After': String(Math.ceil(waitMs / 1000)),
      },
    )
  }
}
