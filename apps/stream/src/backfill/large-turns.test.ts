import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tributary/lanes'
import { HostAwayError } from './host-requests.ts'
import { LargeTurns } from './large-turns.ts'

test('a host whose large repository took long rests for four times as long, also after a failure', async () => {
  let nowMs = Date.UTC(2026, 0, 1)
  const turns = new LargeTurns({ ...systemClock, nowMs: () => nowMs })
  const run = (host: string, tookMs: number, error?: Error): Promise<string> =>
    turns.run(host, async () => {
      nowMs += tookMs
      if (error) throw error
      return 'read'
    })
  const restMsOf = async (reading: Promise<string>): Promise<number> => {
    const error: unknown = await reading.catch((thrown: unknown) => thrown)
    assert.ok(error instanceof HostAwayError, String(error))
    return error.retryAfterMs ?? 0
  }
  for (const error of [undefined, new Error('cut off')]) {
    // The second one waits already when the first one has its turn.
    const both = [run('slow', 30_000, error).catch(() => 'failed'), restMsOf(run('slow', 1))]
    assert.deepEqual(await Promise.all(both), [error ? 'failed' : 'read', 120_000])
    assert.equal(await run('other', 4000), 'read')
    assert.equal(await run('other', 4000), 'read')
    assert.equal(await restMsOf(run('slow', 1)), 112_000)
    nowMs += 112_000
    assert.equal(await run('slow', 1), 'read')
  }
})
