import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tributary/lanes'
import { HostRestsError, LargeTurns } from './large-turns.ts'

test('a host whose large repository took long rests for four times as long, also after a failure', async () => {
  let nowMs = Date.UTC(2026, 0, 1)
  const turns = new LargeTurns({ ...systemClock, nowMs: () => nowMs })
  const run = (host: string, tookMs: number, error?: Error): Promise<string> =>
    turns.run(host, async () => {
      // What the host has no part in, such as our disk.
      nowMs += 2000
      return await turns.timed(host, async () => {
        nowMs += tookMs
        if (error) throw error
        return 'read'
      })
    })
  const restMsOf = async (reading: Promise<string>): Promise<number> => {
    const error: unknown = await reading.catch((thrown: unknown) => thrown)
    assert.ok(error instanceof HostRestsError, String(error))
    return error.retryAfterMs ?? 0
  }
  // While nobody else waits, a host may take as long as it likes.
  assert.equal(await run('slow', 30_000), 'read')
  for (const error of [undefined, new Error('cut off')]) {
    // The second one waits already when the first one has its turn.
    const first = run('slow', 30_000, error).catch(() => 'failed')
    const all = [first, restMsOf(run('slow', 1)), run('other', 4000)]
    assert.deepEqual(await Promise.all(all), [error ? 'failed' : 'read', 114_000, 'read'])
    assert.equal(await run('other', 4000), 'read')
    assert.equal(await restMsOf(run('slow', 1)), 108_000)
    nowMs += 108_000
    assert.equal(await run('slow', 1), 'read')
  }
})
