/** Scripts of the simulator that always are played. More of them, new each time: `npm run campaign -- stream-simulator`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf, type Script } from './script.ts'
import { play } from './simulation.ts'

const seeds = 40

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

const found: Record<string, Script> = {
  'an account whose takedown was shown just before a kill is hidden after a stop, too': {
    seed: 1,
    accounts: 2,
    bounds: { segmentBytes: 2000, logFileBytes: 3000, blockAgeMs: 20, tailBytes: 3000, isTrusting: true },
    steps: [
      { do: 'commit', account: 0, times: 3, draw: 1 },
      { do: 'wait', ms: 3900 },
      { do: 'status', account: 0, word: 'takendown' },
      { do: 'wait', ms: 60 },
      { do: 'condition', part: 'link', manner: 'down', forMs: 40_000 },
      { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
      { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 0 },
      { do: 'join', subscriber: 0, cursor: 'start', filter: 0, pace: 'fast' },
      { do: 'wait', ms: 5000 },
    ],
  },
}

for (const [name, script] of Object.entries(found))
  test(name, async () => {
    assert.deepEqual((await play(script)).broken, [])
  })
