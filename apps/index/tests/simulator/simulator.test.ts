/**
 * Scripts of the simulator that always are played. The campaign plays 50 others in every run, and as many new ones as are
 * wanted: `npm run campaign -- index-simulator`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf } from './script.ts'
import { play } from './simulation.ts'

const seeds = 3

test(`seeds 1 to ${seeds} break no promise`, async () => {
  for (let seed = 1; seed <= seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('a seed is the same run each time', async () => {
  const [first, second] = [await play(scriptOf(1)), await play(scriptOf(1))]
  assert.ok(first.trace.length > 20)
  assert.deepEqual(first.trace, second.trace)
})
