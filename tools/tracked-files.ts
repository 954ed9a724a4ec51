import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

export const root: string = join(import.meta.dirname, '..')

/** Paths of all files that are or would be under version control, from the root, except the ones deleted on disk. */
export function trackedFiles(): string[] {
  const list = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  })
  if (list.status !== 0) throw new Error(`git ls-files failed: ${list.stderr}`)
  const files = list.stdout.split('\0').filter((file) => file !== '')
  return files.filter((file) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile())
}

/** The text of a file, or undefined for binary ones. */
export function textOf(file: string): string | undefined {
  const bytes = readFileSync(join(root, file))
  return bytes.includes(0) ? undefined : bytes.toString('utf8')
}
