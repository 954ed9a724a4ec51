/**
 * npm run campaign: what takes longer than a test. Without a name it runs the short form of every campaign that a
 * change must pass, some seven minutes in all. With a name it runs that one, and all options are the campaign's own:
 *
 *     npm run campaign -- crash --rounds 5000
 *     npm run campaign -- hostile --seconds 3600
 *     npm run campaign -- hostile --help
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { helpOf } from './help-of.ts'
import { startSooner } from './start-sooner.ts'

interface Campaign {
  file: string
  /** The options of its short form. Undefined when it is run by name only. */
  short?: readonly string[]
  /** It measures delays, so that nothing else of ours runs beside its short form. */
  measures?: true
  /** It starts services again and again, and none of them runs for long. */
  startsOften?: true
}

/** What came of a campaign. */
interface Ended {
  code: number
  /** Nothing when it was shown at once. */
  output: string
}

/** Short forms at a time that do not measure: most take about one core, and some wait for half of their time. */
const campaignsAtOnce = 4

/** Short forms start in this order. Long ones are in front, so that all end at about the same time. */
const campaigns: Readonly<Record<string, Campaign>> = {
  crash: { file: 'apps/relay/tests/crash-campaign.ts', short: ['--rounds', '60'], startsOften: true },
  soak: { file: 'apps/relay/tests/soak-campaign.ts', short: ['--seconds', '60'] },
  oracle: {
    file: 'packages/repo-verify/tests/oracle-soak.ts',
    short: ['--commits', '1000'],
  },
  // A change has to hold these seeds; new ones are played by name.
  simulator: { file: 'apps/relay/tests/simulator-campaign.ts', short: ['--seeds', '700', '--seed', '9000'] },
  // The same, from where its scenes begin.
  'simulator-scenes': {
    file: 'apps/relay/tests/simulator-campaign.ts',
    short: ['--seeds', '400', '--seed', '2000000'],
  },
  // And from where its scenes of sources begin.
  'simulator-sources': {
    file: 'apps/relay/tests/simulator-campaign.ts',
    short: ['--seeds', '500', '--seed', '3000000'],
  },
  'histories-postgres': {
    file: 'apps/index/tests/histories-campaign.ts',
    short: ['--seeds', '500', '--database', 'postgres'],
  },
  histories: { file: 'apps/index/tests/histories-campaign.ts', short: ['--seeds', '500'] },
  'stream-simulator': {
    file: 'apps/stream/tests/simulator-campaign.ts',
    short: ['--seeds', '100', '--seed', '1000000'],
  },
  // From where its scripts are little but scenes.
  'stream-scenes': {
    file: 'apps/stream/tests/simulator-campaign.ts',
    short: ['--seeds', '150', '--seed', '2000000'],
  },
  'index-simulator': {
    file: 'apps/index/tests/simulator-campaign.ts',
    short: ['--seeds', '50', '--seed', '1000000'],
  },
  // A machine that tests a change may have other work: the bar of the promise, 50 ms, is for one that has none.
  hostile: {
    file: 'apps/relay/tests/hostile-campaign.ts',
    short: ['--seconds', '60', '--delay-ms', '250'],
    measures: true,
  },
  'index-kill': { file: 'apps/index/tests/kill-campaign.ts', short: ['--rounds', '4'], startsOften: true },
  differential: { file: 'apps/relay/tests/differential-campaign.ts', short: ['--messages', '20000'] },
}
const root = join(import.meta.dirname, '..')
const [name, ...options] = process.argv.slice(2)

const wantsHelp = (word: string): boolean => word === '--help' || word === '-h'

if (name !== undefined && wantsHelp(name)) {
  console.log(`${helpOf(import.meta.filename)}\n\nCampaigns: ${Object.keys(campaigns).join(', ')}`)
} else if (name === undefined) {
  await runShort()
} else {
  const campaign = new Map(Object.entries(campaigns)).get(name)
  if (campaign && options.some(wantsHelp)) console.log(helpOf(join(root, campaign.file)))
  else if (campaign) process.exitCode = (await run(campaign, options, 'inherit')).code
  else {
    console.error(`campaign: there is no ${name}; there are ${Object.keys(campaigns).join(', ')}`)
    process.exitCode = 64
  }
}

/**
 * All short forms. What one prints comes as a whole when it has ended, with how long it took; what failed comes last.
 */
async function runShort(): Promise<void> {
  const failed: string[] = []
  const all = Object.entries(campaigns)
  const rest = all.filter(([, { measures }]) => !measures).values()
  const playFrom = async (some: Iterable<[string, Campaign]>): Promise<void> => {
    for (const [each, campaign] of some) {
      if (!campaign.short) continue
      const startedMs = performance.now()
      const { code, output } = await run(campaign, campaign.short, 'pipe')
      const seconds = Math.round((performance.now() - startedMs) / 1000)
      if (code === 0) console.log(`${output}campaign: ${each} passed after ${seconds} s`)
      else failed.push(`${output}campaign: ${each} failed after ${seconds} s`)
    }
  }
  await playFrom(all.filter(([, { measures }]) => measures))
  await Promise.all(Array.from({ length: campaignsAtOnce }, () => playFrom(rest)))
  for (const text of failed) console.log(text)
  if (failed.length > 0) process.exitCode = 1
}

async function run(
  { file, startsOften }: Campaign,
  options: readonly string[],
  shown: 'inherit' | 'pipe',
): Promise<Ended> {
  // A campaign, and the services that it starts, get the memory settings that `run.mjs` gives us, if they run long.
  const memory = process.execArgv.filter((argument) => argument.startsWith('--initial-') && !startsOften)
  const env = { ...process.env }
  if (startsOften) startSooner(env)
  const errors = ['--import', pathToFileURL(join(root, 'tools', 'plain-argument-errors.mjs')).href]
  const child = spawn(process.execPath, [...memory, ...errors, join(root, file), ...options], {
    stdio: ['inherit', shown, shown],
    env,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text) => (output += String(text)))
  const [code] = (await once(child, 'close')) as [number | null] // as documented
  return { code: code ?? 1, output }
}
