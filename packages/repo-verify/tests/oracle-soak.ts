/**
 * Verification against the reference implementation at length: commits that create, update, delete or do all of it,
 * in repositories of no records to 20,000.
 *
 *     node packages/repo-verify/tests/oracle-soak.ts --commits 10000 --seed 1
 */
import { stdout } from 'node:process'
import { parseArgs } from 'node:util'
import { checkAgainstOracle } from './oracle-run.ts'

const { values } = parseArgs({
  options: {
    commits: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 32) },
  },
})
const commits = Number(values.commits)
const seed = Number(values.seed)
const startMs = performance.now()
const { operations } = await checkAgainstOracle({
  commits,
  seed,
  sizes: [0, 10, 300, 3000, 20_000],
  writesMax: 20,
})
const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
stdout.write(
  `oracle: ${commits} commits with ${operations} operations verified as the reference implementation made them ` +
    `(seed ${seed}), ${seconds} s\n`,
)
