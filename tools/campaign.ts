/**
 * npm run campaign: what takes longer than a test. A relay is killed at every named point, and another runs under many
 * hosts and accounts for a while. Without arguments as long as a change is worth, some four minutes; a release is worth
 * more: npm run campaign -- --rounds 5000 --soak-seconds 1800
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '200' },
    'soak-seconds': { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
  },
})
const tests = join(import.meta.dirname, '..', 'apps', 'relay', 'tests')
const campaigns: readonly (readonly string[])[] = [
  ['crash-campaign.ts', '--rounds', values.rounds],
  ['soak-campaign.ts', '--seconds', values['soak-seconds']],
]

for (const [file = '', ...args] of campaigns) {
  const program = [join(tests, file), ...args, '--seed', values.seed]
  if (spawnSync(process.execPath, program, { stdio: 'inherit' }).status !== 0) process.exitCode = 1
}
