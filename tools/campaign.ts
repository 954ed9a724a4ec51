/**
 * npm run campaign: what takes longer than a test. Without a name it runs the short form of every campaign that a
 * change must pass, some five minutes in all. With a name it runs that one, and all options are the campaign's own:
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
  /** It makes many objects that die at once. */
  makesMuch?: true
}

/** What came of a campaign. */
interface Ended {
  code: number
  /** Nothing when it was shown at once. */
  output: string
}

/** Short forms at a time that do not measure: most take about one core, and some wait for half of their time. */
const campaignsAtOnce = 4
/** Room for objects that die at once. With less a tenth of the time of a simulator goes into their collection. */
const youngRoom = ['--min-semi-space-size=32', '--max-semi-space-size=64']

/** Short forms start in this order. Long ones are in front, so that all end at about the same time. */
const campaigns: Readonly<Record<string, Campaign>> = {
  crash: { file: 'apps/relay/tests/crash-campaign.ts', short: ['--rounds', '60'], startsOften: true },
  // A change has to hold these seeds; new ones are played by name.
  simulator: simulator('relay', 700, 9000),
  // The same, from where its scenes of sources begin.
  'simulator-sources': simulator('relay', 300, 3_000_000),
  // And from where writes of the log fail.
  'simulator-writes': simulator('relay', 200, 4_000_000),
  soak: { file: 'apps/relay/tests/soak-campaign.ts', short: ['--seconds', '60'] },
  oracle: {
    file: 'packages/repo-verify/tests/oracle-soak.ts',
    short: ['--commits', '1000'],
  },
  // And from where its scenes begin.
  'simulator-scenes': simulator('relay', 400, 2_000_000),
  'histories-postgres': {
    file: 'apps/index/tests/histories-campaign.ts',
    short: ['--seeds', '500', '--database', 'postgres'],
  },
  histories: { file: 'apps/index/tests/histories-campaign.ts', short: ['--seeds', '500'] },
  'stream-simulator': simulator('stream', 100, 1_000_000),
  // From where its scripts are little but scenes, and have the ends of a process and cursors at edges.
  'stream-scenes': simulator('stream', 150, 3_000_000),
  'index-simulator': simulator('index', 50, 1_000_000),
  // A machine that tests a change may have other work: the bar of the promise, 50 ms, is for one that has none.
  hostile: {
    file: 'apps/relay/tests/hostile-campaign.ts',
    short: ['--seconds', '60', '--delay-ms', '500'],
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

/** A short form that plays seeds in one process, because each process has to warm up. Others have the other cores. */
function simulator(app: string, seeds: number, seed: number): Campaign {
  const short = ['--seeds', String(seeds), '--seed', String(seed), '--processes', '1']
  return { file: `apps/${app}/tests/simulator-campaign.ts`, short, makesMuch: true }
}

async function run(
  { file, startsOften, makesMuch }: Campaign,
  options: readonly string[],
  shown: 'inherit' | 'pipe',
): Promise<Ended> {
  // A campaign, and the services that it starts, get the memory settings that `run.mjs` gives us, if they run long.
  const memory = process.execArgv.filter((argument) => argument.startsWith('--initial-') && !startsOften)
  if (makesMuch) memory.push(...youngRoom)
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
