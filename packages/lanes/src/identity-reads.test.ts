import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { test } from 'node:test'
import { IdentityError } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { IdentityReads } from './identity-reads.ts'

test('a wait for a document that does not come is no longer when the clock was set back meanwhile', async () => {
  const waitMs = 10_000
  let [nowMs, passedMs] = [1_000_000_000, 0]
  const clock = {
    nowMs: () => nowMs,
    after: (ms: number, call: () => void) => {
      void setImmediate().then(() => {
        passedMs += ms
        nowMs += ms
        call()
      })
      return { [Symbol.dispose]: () => {} }
    },
  }
  let readings = 0
  const resolve = async () => {
    // A day.
    if (++readings === 1) nowMs -= 86_400_000
    return await Promise.reject(new IdentityError('unavailable', 'the directory is away', {}))
  }
  const reads = new IdentityReads({ resolve }, clock, () => 0.5)
  const outcome = await reads.read('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' as Did, {
    untilMs: nowMs + waitMs,
    refreshAfter: 0,
    signal: new AbortController().signal,
    onFault: () => {},
  })
  assert.deepEqual([outcome, passedMs], ['identity-unavailable', waitMs])
})
