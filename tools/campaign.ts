/**
 * npm run campaign: what takes longer than a test. A relay is killed at every named point, another runs under many
 * hosts and accounts for a while, and verification is compared with the reference implementation over many generated
 * commits. Without arguments as long as a change is worth, some five minutes; a release is worth more:
 * npm run campaign -- --rounds 5000 --soak-seconds 1800 --oracle-commits 10000
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '200' },
    'soak-seconds': { type: 'string', default: '60' },
    'oracle-commits': { type: 'string', default: '1000' },
    seed: { type: 'string' },
  },
})
const root = join(import.meta.dirname, '..')
const campaigns: readonly (readonly string[])[] = [
  ['apps/relay/tests/crash-campaign.ts', '--rounds', values.rounds],
  ['apps/relay/tests/soak-campaign.ts', '--seconds', values['soak-seconds']],
  ['packages/repo-verify/tests/oracle-soak.ts', '--commits', values['oracle-commits']],
]

for (const [file = '', ...args] of campaigns) {
  const seed = values.seed === undefined ? [] : ['--seed', values.seed]
  const program = [join(root, file), ...args, ...seed]
  if (spawnSync(process.execPath, program, { stdio: 'inherit' }).status !== 0) process.exitCode = 1
}
