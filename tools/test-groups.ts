/**
 * Test files that share a process. Most of what a small file takes is the start of Node and its imports, so that a few
 * files of one package are imported by a file of their own, one after the other.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

export interface TestGroup {
  /** `packages-xrpc-1` */
  name: string
  /** From the root of the repository. */
  files: string[]
}

const filesMax = 8
/** Whole programs, and what takes long by itself: the runner has them beside each other. */
const isLong = (file: string): boolean =>
  /\.(network|process|fuzz)\.test\.ts$|\/(simulator|power|conformance)\/|^tools\//.test(file)
/**
 * What changes or measures what all files of a process have in common: hooks of the whole run, clocks, listeners,
 * variables, memory. `mock` of a test is put back after the test.
 */
const changesProcess =
  /^(before|after|beforeEach|afterEach)\(|\bmock\.timers\b|\bglobalThis\b|\bmemoryInUse\b|\bprocess\s*\.\s*(env|argv|chdir|on|once|exit\w*|memoryUsage)\b/m

/**
 * Groups of those files that can share a process; the others are in none.
 * @param files from the root of the repository.
 */
export function testGroups(root: string, files: readonly string[]): TestGroup[] {
  const shared = files
    .filter((file) => !isLong(file) && !changesProcess.test(readFileSync(join(root, file), 'utf8')))
    .toSorted()
  const ofPackage = Map.groupBy(shared, (file) => file.split('/', 2).join('-'))
  return [...ofPackage].flatMap(([name, all]) => {
    const count = Math.ceil(all.length / filesMax)
    return Array.from({ length: count }, (_, i) => ({
      name: `${name}-${i + 1}`,
      // Dealt out, since long ones stand side by side.
      files: all.filter((_, at) => at % count === i),
    }))
  })
}

/** Writes a file that imports those of a group, for each group, and gives their paths. */
export function writeTestGroups(root: string, groups: readonly TestGroup[]): string[] {
  const folder = join(root, 'node_modules', '.cache', 'test-groups')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  return groups.map(({ name, files }) => {
    const path = join(folder, `${name}.test.mjs`)
    writeFileSync(path, files.map((file) => `import '${pathToFileURL(join(root, file)).href}'\n`).join(''))
    return path
  })
}
