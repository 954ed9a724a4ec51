import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/**
 * The version of what runs, from the nearest `package.json` above this file: that of this package, and in what is published
 * that of the whole. All packages have the same.
 */
export function programVersion(): string {
  for (
    let directory = import.meta.dirname;
    directory !== dirname(directory);
    directory = dirname(directory)
  ) {
    const file = join(directory, 'package.json')
    if (!existsSync(file)) continue
    const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version?: unknown } // npm read it before
    if (typeof version === 'string') return version
  }
  throw new Error('there is no package.json with a version above this file')
}
