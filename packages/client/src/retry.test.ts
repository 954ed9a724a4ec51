import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StreamError } from './errors.ts'
import { defaultRetry, Retries } from './retry.ts'

test('a server is waited for as long as it asks, up to an hour', () => {
  const waitFor = (retryAfterMs: number): number =>
    new Retries(defaultRetry).failed(new StreamError('RateLimitExceeded', 'busy', { retryAfterMs })).delayMs
  assert.equal(waitFor(5000), 5000)
  // Timers take no longer time than 2^31 ms: they would fire at once.
  assert.equal(waitFor(2 ** 40), 3_600_000)
})
