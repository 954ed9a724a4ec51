/**
 * Verification against the reference implementation at length: commits that create, update, delete, do all of it, or
 * replace all that is there, in repositories of no records to 20,000. The seed is another one each time; those that
 * failed once are in `oracle-seeds.json` and always run first.
 *
 *     node packages/repo-verify/tests/oracle-soak.ts --commits 10000 --seed 1
 */
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { stdout } from 'node:process'
import { parseArgs } from 'node:util'
import { checkAgainstOracle, type OracleRun } from './oracle-run.ts'

const { values } = parseArgs({
  options: { commits: { type: 'string', default: '10000' }, seed: { type: 'string' } },
})
const commits = Number(values.commits)
const seed = values.seed === undefined ? randomInt(2 ** 32) : Number(values.seed)
const sizes = [0, 1, 3, 10, 40, 300, 3000, 20_000]
stdout.write(`oracle: seed ${seed}\n`)
const failedOnce = JSON.parse(
  readFileSync(new URL('oracle-seeds.json', import.meta.url), 'utf8'),
) as OracleRun[] // our own file
for (const run of failedOnce) await checkAgainstOracle(run)
const startMs = performance.now()
const run = { commits, seed, sizes, writesMax: 20 }
try {
  const { operations, emptied, bare, bareBefore } = await checkAgainstOracle(run)
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
  stdout.write(
    `oracle: ${commits} commits with ${operations} operations verified as the reference implementation made them ` +
      `(${emptied} left no record, ${bare} a root without keys, ${bareBefore} followed one), ${seconds} s\n`,
  )
} catch (error) {
  stdout.write(
    `oracle: failed; add the shortest run that fails to oracle-seeds.json: ${JSON.stringify(run)}\n`,
  )
  throw error
}
