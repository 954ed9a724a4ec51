import { test } from 'node:test'
import { testSeed } from '@tributary/testkit/disk'
import { runPower } from './power-run.ts'

const runs = 60

// A failure names its seed: SEED=<seed> runs it first.
test('whenever the power goes or a kill comes, each row that was shown is there once, and no seq comes again', async () => {
  const first = testSeed()
  for (let run = 0; run < runs; run++) await runPower((first + run) % 2 ** 32)
})
