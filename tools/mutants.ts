/**
 * npm run mutants: plants faults, one at a time, and runs the tests that must catch each. The lists are the files
 * `mutants.json` of packages and apps. A fault that no test catches is printed, and the run fails. Before anything is
 * planted, all lists are compared with the sources: a list that no longer fits, or a fault that leaves no program, fails
 * the run.
 *
 *     npm run mutants                          # all
 *     npm run mutants -- --sample 20           # as many, other ones each time
 *     npm run mutants -- --only event-log      # of files, or for tests, whose path contains this, or with these words
 *                                              # in their promise; may be given several times
 *     npm run mutants -- --sample 20 --seed 7  # the same ones again
 *     npm run mutants -- --sample 0            # none: only looks whether the lists fit
 *     npm run mutants -- --only-simulator      # those that simulators can see, and the simulators instead of tests
 *     npm run mutants -- --only-simulator --seeds 200  # that many seeds of each, instead of 100
 *
 * Faults are planted in copies of the repository, so the working tree stays as it is. First the tests run without a
 * fault: a test that fails then cannot catch anything.
 *
 * A fault that makes a test hang is caught, too. Of a simulator it is told apart and does not count, because nobody learns
 * by it which seed to play.
 */
import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  mkdirSync,
  writeFileSync,
} from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { helpOf } from './help-of.ts'
import { firstSeedOf, simulatedCode, type Change } from './simulated-code.ts'
import { startSooner } from './start-sooner.ts'

/** One fault. */
interface Mutant {
  /** The folder of its list. */
  list: string
  /** The file that it is planted in, from the root of the repository. */
  file: string
  /** What stands there, once in the file, and what takes its place. */
  find: string
  replace: string
  /** What breaks by it, as a promise. */
  promise: string
  /**
   * The tests of which at least one must fail, from the root. They run one after the other, the quickest first. After a
   * `#` come words of the title of the one test in the file that is run.
   */
  tests: string[]
  /** Why it changes nothing that anybody could see. Such a fault is listed and not planted. */
  equivalent?: string
}

/** What became of a test. */
type Outcome = 'passed' | 'failed' | 'hung'

interface Ran {
  outcome: Outcome
  /** The last of what it printed. */
  output: string
}

/** A test that takes longer hangs: so long, and so many times what it took without a fault. */
const hang = { ms: 10_000, times: 3 }
/** The share of faults that the simulators find at least. */
const simulatorShareMin = 0.6
/** Without a fault. Of a simulator it is for so many seeds. */
const baselineMax = { ms: 240_000, seeds: 100 }
/** Three more than there are cores, because tests wait, and those that hang do nothing else. */
const copiesAtOnce = Math.min(5, availableParallelism() + 3)
/** Characters that are shown of a test that fails without a fault. */
const shownMax = 6000
const root = join(import.meta.dirname, '..')
/** Where compiled code is kept, in the repository and, as a link to that, in each copy. */
const compiled = join('node_modules', '.cache', 'mutants')
/** Process groups of tests that run. */
const running = new Set<number>()
// Node says of what reads the sources that it might change.
process.removeAllListeners('warning')
const { values } = readOptions()
if (values.help) {
  console.log(helpOf(import.meta.filename))
  process.exit()
}

startSooner(process.env)
const all = listed()
const stale = all.flatMap(staleness)
for (const line of stale) console.log(`mutants: ${line}`)
/** What simulators play in the place of tests. */
const played = values['only-simulator']
  ? ['--processes', '1', '--seeds', values.seeds, '--shrink-ms', '0', '--failures-max', '1']
  : undefined
const baselineMsMax = baselineMax.ms * Math.max(1, played ? Number(values.seeds) / baselineMax.seeds : 1)
const wanted = all.filter(
  ({ file, equivalent, tests, promise }) =>
    !equivalent &&
    values.only.some((words) => [file, promise, ...tests].some((text) => text.includes(words))),
)
const planted = played ? simulated(wanted) : wanted
if (played) console.log(`mutants: simulators can see ${planted.length} of ${wanted.length}`)
const chosen =
  values.sample === undefined ? planted : sample(planted, Number(values.sample), Number(values.seed))
console.log(`mutants: ${chosen.length} of ${planted.length}, seed ${values.seed}`)
process.exitCode = stale.length === 0 && (await run(chosen)) ? 0 : 1

function readOptions() {
  try {
    return parseArgs({
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        sample: { type: 'string' },
        seed: { type: 'string', default: String(Math.floor(Math.random() * 1e9)) },
        only: { type: 'string', multiple: true, default: [''] },
        'only-simulator': { type: 'boolean', default: false },
        seeds: { type: 'string', default: '100' },
      },
    })
  } catch (error) {
    console.error(
      `mutants: ${error instanceof Error ? error.message : String(error)} (--help says what there is)`,
    )
    process.exit(64)
  }
}

function listed(): Mutant[] {
  const files = globSync('{packages,apps}/*/tests/**/mutants.json', { cwd: root })
  return files.flatMap((file) => {
    const mutants = JSON.parse(readFileSync(join(root, file), 'utf8')) as Omit<Mutant, 'list'>[] // our own files
    return mutants.map((mutant) => ({ ...mutant, list: dirname(file) }))
  })
}

/** Those that simulators can see, with these simulators for tests. */
function simulated(mutants: readonly Mutant[]): Mutant[] {
  const simulatorsAt = simulatedCode(root)
  return mutants
    .map((mutant) => ({ ...mutant, tests: simulatorsAt(mutant.file, changeOf(mutant)) }))
    .filter(({ tests }) => tests.length > 0)
}

/** What a fault changes in its file. */
function changeOf({ file, find, replace }: Mutant): Change {
  let same = 0
  while (same < find.length - 1 && find[same] === replace[same]) same++
  // What stands between two pieces of code belongs to none.
  while (same < find.length - 1 && /\s/.test(find[same] ?? '')) same++
  const rest = Math.min(find.length - 1, replace.length) - same
  let sameEnd = 0
  while (sameEnd < rest && find.at(-1 - sameEnd) === replace.at(-1 - sameEnd)) sameEnd++
  const source = readFileSync(join(root, file), 'utf8')
  const at = source.indexOf(find)
  return { source, start: at + same, end: at + find.length - sameEnd }
}

/** What of a fault no longer fits the sources. */
function staleness({ file, find, replace, promise, tests }: Mutant): string[] {
  const missing = [file, ...tests].filter((name) => !isThere(name))
  if (missing.length > 0) return missing.map((name) => `${name} is not there: ${promise}`)
  const parts = readFileSync(join(root, file), 'utf8').split(find)
  if (parts.length !== 2) return [`${file} holds the text of a fault ${parts.length - 1} times: ${promise}`]
  // Any test would catch what no longer is a program.
  if (!file.endsWith('.ts') || isProgram(parts.join(replace))) return []
  return [`${file} cannot be read with the fault in it: ${promise}`]
}

function isProgram(source: string): boolean {
  try {
    stripTypeScriptTypes(source)
    return true
  } catch {
    return false
  }
}

/** Whether there is a file, and in it the words after a `#`, once. */
function isThere(name: string): boolean {
  const [file = '', title = ''] = name.split('#', 2)
  if (!existsSync(join(root, file))) return false
  return title === '' || readFileSync(join(root, file), 'utf8').split(title).length === 2
}

/** Some of them, drawn from a seed. */
function sample(all: readonly Mutant[], count: number, seed: number): Mutant[] {
  let state = seed
  const draw = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state
  }
  return all
    .map((mutant) => ({ mutant, at: draw() }))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, count)
    .map(({ mutant }) => mutant)
}

/** Ends what was started, and leaves nothing behind, when this is ended itself. */
function endWith(copies: readonly string[], signal: 'SIGINT' | 'SIGTERM'): void {
  process.once(signal, () => {
    for (const group of running) end(group)
    for (const copy of copies) rmSync(copy, { recursive: true, force: true })
    process.exit(1)
  })
}

/** Whether every fault was caught, and every test passes without one. */
async function run(mutants: readonly Mutant[]): Promise<boolean> {
  if (mutants.length === 0) return true
  const copies = Array.from({ length: copiesAtOnce }, () => copyOfRepository())
  endWith(copies, 'SIGINT')
  endWith(copies, 'SIGTERM')
  try {
    const tests = [...new Set(mutants.flatMap(({ tests }) => tests))]
    const failing: string[] = []
    const msMaxOf = new Map<string, number>()
    await share(copies, tests, async (copy, test) => {
      const startedMs = performance.now()
      const { outcome, output } = await runTest(copy, test, baselineMsMax)
      if (outcome !== 'passed') failing.push(`${test} ${outcome} without a fault:\n${output}`)
      msMaxOf.set(test, hang.ms + hang.times * (performance.now() - startedMs))
    })
    const survivors: string[] = []
    const hanging: string[] = []
    const caughtOf = new Map<string, number>()
    await share(copies, mutants, async (copy, mutant) => {
      const startedMs = performance.now()
      const outcome = await plant(copy, mutant, msMaxOf)
      const word = { passed: 'survived', failed: 'caught', hung: 'caught by a hang' }[outcome]
      const line = `${word}: ${mutant.file}: ${mutant.promise}`
      console.log(`${line} (${Math.round((performance.now() - startedMs) / 100) / 10} s)`)
      if (outcome === 'passed') survivors.push(line)
      else if (outcome === 'hung') hanging.push(line)
      else caughtOf.set(mutant.list, (caughtOf.get(mutant.list) ?? 0) + 1)
    })
    for (const [list, { length }] of Map.groupBy(mutants, ({ list }) => list))
      console.log(`mutants: ${list}: ${caughtOf.get(list) ?? 0} of ${length} caught`)
    const found = mutants.length - survivors.length - hanging.length
    console.log(`mutants: ${found} of ${mutants.length} caught, and ${hanging.length} by a hang`)
    for (const line of [...survivors, ...hanging, ...failing]) console.log(`mutants: ${line}`)
    if (played) {
      console.log(
        `mutants: the simulators find ${Math.round((100 * found) / mutants.length)} %, hangs left out`,
      )
      return failing.length === 0 && found >= simulatorShareMin * mutants.length
    }
    return failing.length + survivors.length === 0
  } finally {
    for (const copy of copies) rmSync(copy, { recursive: true, force: true })
  }
}

/** What the tests of a fault make of it, all in all. */
async function plant(
  copy: string,
  { file, find, replace, tests }: Mutant,
  msMaxOf: ReadonlyMap<string, number>,
): Promise<Outcome> {
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  writeFileSync(
    path,
    source.replace(find, () => replace),
  )
  try {
    let result: Outcome = 'passed'
    for (const test of tests) {
      const { outcome } = await runTest(copy, test, msMaxOf.get(test) ?? baselineMsMax)
      if (outcome === 'failed' || (outcome === 'hung' && !played)) return outcome
      // Another simulator may say what is wrong.
      if (outcome === 'hung') result = 'hung'
    }
    return result
  } finally {
    writeFileSync(path, source)
  }
}

async function runTest(copy: string, test: string, msMax: number): Promise<Ran> {
  const [file = '', title = ''] = test.split('#', 2)
  const only = title === '' ? [] : [`--test-name-pattern=${title.replaceAll(/[^\w ]/g, '.')}`]
  const args = played
    ? [file, '--seed', firstSeedOf(file), ...played]
    : ['--import', join(copy, 'tools', 'test-file.mjs'), '--test', '--test-reporter=dot', ...only, file]
  const child = spawn(process.execPath, args, {
    cwd: copy,
    // By its place from there, so that what one copy compiled is found by the others.
    env: { ...process.env, NODE_COMPILE_CACHE: join(copy, compiled), NODE_COMPILE_CACHE_PORTABLE: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => (output = (output + String(text)).slice(-shownMax)))
  const { pid: group = 0 } = child
  running.add(group)
  let isHung = false
  const timer = setTimeout(() => {
    isHung = true
    end(group)
  }, msMax)
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve))
  clearTimeout(timer)
  // The processes that the tests started end with them.
  end(group)
  running.delete(group)
  if (isHung) return { outcome: 'hung', output }
  return { outcome: code === 0 ? 'passed' : 'failed', output }
}

/** @param group 0 when it could not be started. */
function end(group: number): void {
  if (group === 0) return
  try {
    process.kill(-group, 'SIGKILL')
  } catch {
    // All have ended already.
  }
}

/** Hands the items out to the copies, each copy doing one at a time. */
async function share<T>(
  copies: readonly string[],
  items: readonly T[],
  work: (copy: string, item: T) => Promise<void>,
): Promise<void> {
  const left = items.values()
  await Promise.all(
    copies.map(async (copy) => {
      for (const item of left) await work(copy, item)
    }),
  )
}

/** A copy of the sources, beside the installed packages, in which the packages of the workspace are those of the copy. */
function copyOfRepository(): string {
  const copy = mkdtempSync(join(tmpdir(), 'mutants-'))
  const isSource = (path: string): boolean => !/[/\\](node_modules|\.git|\.cache|data)$/.test(path)
  cpSync(root, copy, { recursive: true, filter: isSource })
  // Some tests ask which files are under version control, or would be: here those that are not ignored.
  const { status } = spawnSync('git', ['init', '--quiet'], { cwd: copy, stdio: 'inherit' })
  if (status !== 0) throw new Error('git init failed')
  const modules = join(copy, 'node_modules')
  mkdirSync(join(modules, '@tributary'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== '@tributary' && name !== '.cache')
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
  mkdirSync(join(root, compiled), { recursive: true })
  mkdirSync(join(copy, compiled, '..'))
  symlinkSync(join(root, compiled), join(copy, compiled), 'junction')
  for (const file of globSync('{packages/*,apps/*,bench}/package.json', { cwd: root })) {
    const { name } = JSON.parse(readFileSync(join(root, file), 'utf8')) as { name: string } // our own files
    rmSync(join(modules, name), { force: true })
    symlinkSync(join(copy, file, '..'), join(modules, name))
  }
  return copy
}
