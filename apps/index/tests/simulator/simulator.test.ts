/** Scripts of the simulator that always are played. More of them, new each time: `npm run campaign -- index-simulator`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf } from './script.ts'
import { play } from './simulation.ts'

const seeds = 20

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('a seed is the same run each time', async () => {
  const [first, second] = [await play(scriptOf(18)), await play(scriptOf(18))]
  assert.ok(first.trace.length > 20)
  assert.deepEqual(first.trace, second.trace)
})
