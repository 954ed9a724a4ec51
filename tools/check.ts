/** npm run check: types, lint, format, dead code, and mutants that fit. With --fix it writes the format instead. */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const checks: readonly (readonly string[])[] = [
  ['tsc', '--project', 'tsconfig.json'],
  ['tsc', '--project', 'tsconfig.packages.json'],
  ['oxlint', '--type-aware', '--deny-warnings'],
  ['oxfmt', '--check'],
  ['knip'],
]

if (process.argv.includes('--fix')) {
  process.exitCode = succeeds(['oxfmt']) ? 0 : 1
} else {
  const failed = checks.filter((check) => !succeeds(check)).map(([tool]) => tool)
  if (!runs(join(root, 'tools', 'mutants.ts'), ['--sample', '0'])) failed.push('mutants')
  if (failed.length > 0) console.error(`check: failed: ${failed.join(', ')}`)
  process.exitCode = failed.length > 0 ? 1 : 0
}

function succeeds([tool = '', ...args]: readonly string[]): boolean {
  console.error(`check: ${tool} ${args.join(' ')}`)
  return runs(join(root, 'node_modules', '.bin', tool), args)
}

/** Runs a program under this Node: the tools' own first lines would take whichever the system has. */
function runs(program: string, args: readonly string[]): boolean {
  return spawnSync(process.execPath, [program, ...args], { cwd: root, stdio: 'inherit' }).status === 0
}
