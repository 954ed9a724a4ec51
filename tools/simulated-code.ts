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
/** From the 20th seed on, hardly any code is run for the first time. */
const seedsEnough = '20'

/** The first seed that is played of a simulator. Scripts have scenes from some seed on. */
export function firstSeedOf(simulator: string): string {
  return simulator.startsWith('apps/relay/') ? '3000000' : '1000000'
}

/** @returns tells the simulators that run a place of a source file, by the file's path from the root and the offset in it. */
export function simulatedCode(root: string): (file: string, offset: number) => string[] {
  const rangesOf = new Map(simulators.map((simulator) => [simulator, played(root, simulator)]))
  return (file, offset) => {
    if (forAnother.test(file)) return []
    const { href } = pathToFileURL(join(root, file))
    return simulators.filter((simulator) => isRun(rangesOf.get(simulator)?.get(href) ?? [], offset))
  }
}

/** How often each range of each file was run. */
function played(root: string, simulator: string): Map<string, Range[]> {
  const directory = mkdtempSync(join(tmpdir(), 'simulated-code-'))
  try {
    const env = { NODE_V8_COVERAGE: directory }
    const seeds = ['--processes', '1', '--seed', firstSeedOf(simulator), '--seeds', seedsEnough]
    spawnSync(process.execPath, [simulator, ...seeds], { cwd: root, env, stdio: 'ignore' })
    const files = readdirSync(directory).map((name) => readFileSync(join(directory, name), 'utf8'))
    const scripts = files.flatMap((text) => (JSON.parse(text) as Coverage).result) // as Node writes it
    return new Map(scripts.map(({ url, functions }) => [url, functions.flatMap(({ ranges }) => ranges)]))
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
