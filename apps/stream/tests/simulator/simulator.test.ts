/** Scripts of the simulator that always are played. More of them, new each time: `npm run campaign -- stream-simulator`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf } from './script.ts'
import { play } from './simulation.ts'

const seeds = 40

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})
