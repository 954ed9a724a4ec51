import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

export interface Arguments {
  /** In the order in which they run. */
  scenarios: string[]
  isQuick: boolean
  commits: number | undefined
  /** Of the index that `feed-follows` reads. */
  records: number | undefined
  /** An absolute path. */
  profileDirectory: string | undefined
  wantsHelp: boolean
}

export interface ScenarioNames {
  /** Those that run when none is named. */
  standard: readonly string[]
  /** Those that run only when they are named. */
  further: readonly string[]
}

const options = {
  quick: { type: 'boolean', default: false },
  commits: { type: 'string' },
  records: { type: 'string' },
  profile: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** Reads the command line. Says what is wrong with it instead of throwing. */
export function readArguments(
  args: readonly string[],
  { standard, further }: ScenarioNames,
): Arguments | { problem: string } {
  let parsed
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
  const { values, positionals } = parsed
  const unknown = positionals.filter((name) => !standard.includes(name) && !further.includes(name))
  if (unknown.length > 0) return { problem: `no scenario is called ${unknown.join(', ')}` }
  const commits = values.commits === undefined ? undefined : Number(values.commits)
  if (commits !== undefined && !(Number.isInteger(commits) && commits >= 1000 && commits <= 10_000_000))
    return { problem: `--commits ${values.commits}: an integer from 1000 to 10000000` }
  const records = values.records === undefined ? undefined : Number(values.records)
  if (records !== undefined && !(Number.isInteger(records) && records >= 100_000 && records <= 100_000_000))
    return { problem: `--records ${values.records}: an integer from 100000 to 100000000` }
  return {
    scenarios: positionals.length > 0 ? positionals : [...standard],
    isQuick: values.quick,
    commits,
    records,
    profileDirectory: values.profile === undefined ? undefined : resolve(values.profile),
    wantsHelp: values.help,
  }
}

/** How the command is used. */
export function usage({ standard, further }: ScenarioNames): string {
  return `npm run bench -- [scenario…] [--quick] [--commits N] [--records N] [--profile DIR]

Scenarios: ${standard.join(', ')}. All of these when none is named.
Only when named: ${further.join(', ')}.
  --quick        a smaller load and shorter phases: noisier, done in a few minutes
  --commits N    size of the load, 1000 to 10000000
  --records N    size of the index that feed-follows reads, 100000 to 100000000
  --profile DIR  CPU profiles of the processes under test, and their most expensive functions`
}
