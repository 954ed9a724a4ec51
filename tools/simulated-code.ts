/** Which code the simulators run, as V8 counts it while they play some seeds. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

interface Range {
  startOffset: number
  endOffset: number
  count: number
}

interface Coverage {
  result: { url: string; functions: { ranges: Range[] }[] }[]
}

/** The commands that play them. */
const simulators = ['relay', 'stream', 'index'].map((app) => `apps/${app}/tests/simulator-campaign.ts`)
/** They store in SQLite. Of what is for PostgreSQL they run at most what looks at an error and leaves it. */
const forAnother = /[/]postgres[/]/
/** After so many seeds, hardly any code is run for the first time. */
const seedsEnough = '60'

/** The first seed that is played of a simulator. Scripts have scenes from some seed on. */
export function firstSeedOf(simulator: string): string {
  const first = { 'apps/relay/': '3000000', 'apps/stream/': '3000000', 'apps/index/': '1000000' }
  return Object.entries(first).find(([app]) => simulator.startsWith(app))?.[1] ?? '0'
}

/** What a fault changes in a source file, from an offset to another. */
export interface Change {
  source: string
  start: number
  end: number
}

/**
 * @returns tells the simulators that can see a change of a source file, by the file's path from the root: those that run
 * the whole of it, and what follows where it decides about that. A refusal of what simulators never do is not seen by
 * them. What looks at the time of the machine is not, either, because virtual time stands still while code runs.
 */
export function simulatedCode(root: string): (file: string, change: Change) => string[] {
  const functionsOf = new Map(simulators.map((simulator) => [simulator, played(root, simulator)]))
  return (file, change) => {
    const { source, start, end } = withRestOfLine(change)
    if (forAnother.test(file) || /performance\.now/.test(source.slice(start, end))) return []
    const { href } = pathToFileURL(join(root, file))
    return simulators.filter((simulator) => {
      const functions = functionsOf.get(simulator)?.get(href) ?? []
      const ranges = functions.flat()
      // The first range of a function is the function. What is only handed on there need not be called.
      const parts = functions.flatMap((ranges) => ranges.slice(1)).map(({ startOffset }) => startOffset)
      const places = [start, ...parts.filter((offset) => start <= offset && offset <= end)]
      return places.every((offset) => isRun(ranges, offset))
    })
  }
}

/** What a condition decides about begins in the rest of its line, or after that and a brace. */
function withRestOfLine({ source, start, end }: Change): Change {
  const [rest = ''] = /^.*\s*/.exec(source.slice(end)) ?? []
  return { source, start, end: end + rest.length }
}

/** How often each range of the functions of each file was run. */
function played(root: string, simulator: string): Map<string, Range[][]> {
  const directory = mkdtempSync(join(tmpdir(), 'simulated-code-'))
  try {
    const env = { NODE_V8_COVERAGE: directory }
    const seeds = ['--processes', '1', '--seed', firstSeedOf(simulator), '--seeds', seedsEnough]
    spawnSync(process.execPath, [simulator, ...seeds], { cwd: root, env, stdio: 'ignore' })
    const files = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
    const scripts = files.flatMap((text) => (JSON.parse(text) as Coverage).result) // as Node writes it
    return new Map(scripts.map(({ url, functions }) => [url, functions.map(({ ranges }) => ranges)]))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** The narrowest range around a place counts. */
function isRun(ranges: readonly Range[], offset: number): boolean {
  const around = ranges.filter(({ startOffset, endOffset }) => startOffset <= offset && offset < endOffset)
  const bytes = ({ startOffset, endOffset }: Range): number => endOffset - startOffset
  const narrowest = around.toSorted((a, b) => bytes(a) - bytes(b))[0]
  return narrowest !== undefined && narrowest.count > 0
}
