/**
 * npm test: every test file of the repository, in one run of Node's test runner, whose own summary comes last.
 *
 * Arguments pick the files whose path contains one of them: npm test -- packages/xrpc fanout. Fails when a test fails,
 * and when none ran. A test that leaves a handle open holds its file until the file's time is up, and fails it.
 *
 * Without arguments small files share processes (test-groups.ts). When a group fails as a whole, its files are printed.
 */
import { globSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { startSooner } from './start-sooner.ts'
import { testGroups, writeTestGroups } from './test-groups.ts'

const root = join(import.meta.dirname, '..')
const testTimeoutMs = 300_000
/** Five more than there are cores: networks and processes wait for more than half of their time. */
const filesAtOnce = Math.min(10, availableParallelism() + 5)
/** Megabytes of young objects: tests make many that die at once. Services that they start keep the 8 MB of `launch.mjs`. */
const youngMegabytes = 32
/** Whole processes or a whole network: these take longest, so they start first. */
const isSlow = (file: string): boolean => /\.(network|process)\.test\.ts$/.test(file)

const wanted = process.argv.slice(2)
const files = globSync(
  ['packages/*/{src,tests}', 'apps/*/{src,tests}', 'bench/{src,tests}', 'tools'].map(
    (dir) => `${dir}/**/*.test.ts`,
  ),
  { cwd: root },
)
  .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
  .toSorted((a, b) => Number(isSlow(b)) - Number(isSlow(a)) || a.localeCompare(b))
const groups = wanted.length === 0 ? testGroups(root, files) : []
const grouped = new Set(groups.flatMap((group) => group.files))
const alone = files.filter((file) => !grouped.has(file)).map((file) => join(root, file))

startSooner(process.env)
let ran = 0
const events = run({
  files: [...alone, ...writeTestGroups(root, groups)],
  cwd: root,
  concurrency: filesAtOnce,
  timeout: testTimeoutMs,
  execArgv: [`--max-semi-space-size=${youngMegabytes}`, '--import', join(root, 'tools', 'test-file.mjs')],
})
events.on('test:fail', ({ name }) => {
  process.exitCode = 1
  const group = groups.find((group) => name.endsWith(`${group.name}.test.mjs`))
  if (group) console.error(`${group.name} is ${group.files.join(', ')}`)
})
// Node counts a file without tests as one passed test; its name is the file's.
events.on('test:pass', ({ name, file }) => {
  if (file === undefined || relative(file, name) !== '') ran += 1
})
events.on('end', () => {
  if (ran > 0) return
  console.error(`no test ran${wanted.length === 0 ? '' : ` in files named like ${wanted.join(' or ')}`}`)
  process.exitCode = 1
})
events.compose(spec).pipe(process.stdout)
