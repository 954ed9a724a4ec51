import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkAgainstOracle } from './oracle-run.ts'

test('commits of the reference implementation verify, and invert to the root before them', async () => {
  await checkAgainstOracle({ commits: 300, seed: 20_261_121, sizes: [0, 40, 2500], writesMax: 12 })
})

test('commits of up to 200 mixed operations verify', async () => {
  const { operations } = await checkAgainstOracle({ commits: 6, seed: 7, sizes: [600], writesMax: 200 })
  assert.ok(operations > 200)
})
