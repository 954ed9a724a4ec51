/** Seeds in which sources lose messages or are read anew, and clocks are ahead. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf } from './script.ts'
import { play } from './simulation.ts'

const scenesFrom = 3_000_000
const seeds = 4

test(`seeds ${scenesFrom} to ${scenesFrom + seeds - 1}, in which sources lose messages, break no promise`, async () => {
  for (let seed = scenesFrom; seed < scenesFrom + seeds; seed++)
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})
