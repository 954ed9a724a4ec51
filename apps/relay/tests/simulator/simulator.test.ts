/**
 * Scripts of the simulator that always are played: some of the first seeds, those by which it found a fault, and those
 * that show a fault which is planted (`mutants.json`). More of them, new each time: `npm run campaign -- simulator`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { scriptOf, type Script, type Step } from './script.ts'
import { play } from './simulation.ts'

const seedsPerTest = 20

for (const from of [1, 21]) {
  test(`seeds ${from} to ${from + seedsPerTest - 1} break no promise`, async () => {
    for (let seed = from; seed < from + seedsPerTest; seed++)
      assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
  })
}

test('seeds that show planted faults break no promise without them', async () => {
  for (const seed of [75, 86, 89, 149, 234])
    assert.deepEqual((await play(scriptOf(seed))).broken, [], `seed ${seed}`)
})

test('a seed is the same run each time', async () => {
  const [first, second] = [await play(scriptOf(17)), await play(scriptOf(17))]
  assert.ok(first.trace.length > 100)
  assert.deepEqual(first.trace, second.trace)
})

const small: Omit<Script, 'steps'> = { seed: 1, hosts: 2, accounts: 3, identityWaitMs: 15_000 }

const mended: Record<string, Step[]> = {
  'accounts whose documents could not be read before a restart are asked for after it': [
    { do: 'condition', part: 'directory', of: undefined, manner: 'silent', forMs: 40_000 },
    { do: 'wait', ms: 20_000 },
    { do: 'restart', how: 'stop', afterCalls: undefined, downMs: 0 },
  ],
  'commits that were signed before a key changed are made up for': [{ do: 'rotate', account: 0, gapMs: 0 }],
  'a takedown that was decided just before a kill holds after it': [
    { do: 'condition', part: 'disk', of: undefined, manner: 'stuck', forMs: 10_000 },
    { do: 'wait', ms: 3000 },
    { do: 'exclude', account: 0, status: 'takendown' },
    { do: 'restart', how: 'kill', afterCalls: undefined, downMs: 0 },
  ],
}

for (const [name, steps] of Object.entries(mended))
  test(name, async () => {
    assert.deepEqual((await play({ ...small, steps })).broken, [])
  })

test('the old host of an account is not believed for long, when a directory named it once more', async () => {
  const steps: Step[] = [
    { do: 'move', account: 1, draw: 251_732_172, to: 2, order: 3, gapMs: 0 },
    { do: 'wait', ms: 68_534 },
    { do: 'condition', part: 'directory', of: undefined, manner: 'older', forMs: 10_000 },
    { do: 'spoil', account: 7, draw: 1_504_922_925, how: 'flag' },
    { do: 'wait', ms: 60_000 },
  ]
  const script = { seed: 9164, hosts: 3, accounts: 6, identityWaitMs: 15_000, steps }
  assert.deepEqual((await play(script)).broken, [])
})
