// Decides whether node_modules is what package-lock.json asks for, and which Node runs our programs.
//
// Plain JavaScript with no dependency: it runs on the system's Node (20 or later) before anything is installed.
// The comparison is by content, not by file time, because a checkout sets times as it likes: npm leaves
// node_modules/.package-lock.json behind as the last step of an install, so an install that was cut short has none.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The oldest Node that runs TypeScript sources without a flag and has everything the programs use. */
export const nodeMajorMin = 24

/** The workspace of the command, which depends on those of all services. */
const programWorkspace = 'apps/tributary'
/** The one workspace that nothing depends on. It also brings the other Nodes that the client is tested with. */
const benchWorkspace = 'bench'

/**
 * Says what is wrong with the install, or returns undefined when it fits the lockfile.
 * Packages for other platforms may be absent. Unless `needsDevelopment`, so may what only tests, benchmarks and the demo use.
 *
 * @param {string} root
 * @param {{ needsDevelopment: boolean }} options
 * @returns {string | undefined}
 */
export function installFault(root, { needsDevelopment }) {
  const installed = readPackages(join(root, 'node_modules', '.package-lock.json'))
  if (installed === undefined) return 'node_modules is missing or incomplete'
  const wanted = readPackages(join(root, 'package-lock.json'))
  if (wanted === undefined) return undefined // a copy shipped without a lockfile has nothing to compare with
  for (const [path, entry] of Object.entries(wanted)) {
    const present = installed[path]
    if (path === '') continue
    if (present === undefined) {
      const isOfDevelopment =
        entry.dev === true || path === benchWorkspace || entry.resolved === benchWorkspace
      const mayBeAbsent =
        entry.optional === true || entry.devOptional === true || (isOfDevelopment && !needsDevelopment)
      if (!mayBeAbsent)
        return `${isOfDevelopment ? 'what only demo, tests and benchmarks use' : path} is not installed`
    } else if (present.version !== entry.version || present.integrity !== entry.integrity) {
      return `${path} is not the version that package-lock.json names`
    }
  }
  const surplus = Object.keys(installed).find((path) => wanted[path] === undefined)
  return surplus === undefined ? undefined : `${surplus} is no longer in package-lock.json`
}

/** @param {string} file */
function readPackages(file) {
  if (!existsSync(file)) return undefined
  try {
    /** @type {Record<string, { version?: string, resolved?: string, integrity?: string, optional?: boolean, devOptional?: boolean, dev?: boolean }> | undefined} */
    const packages = JSON.parse(readFileSync(file, 'utf8')).packages
    return packages
  } catch {
    return undefined // half-written: the install it belongs to did not finish
  }
}

/**
 * Runs `npm ci` without install scripts. What npm prints goes to stderr, so that stdout stays the program's.
 * Engine warnings are left out: the packages run under the Node that this very install brings in.
 *
 * @param {string} root
 * @param {{ needsDevelopment: boolean }} options whether tests, benchmarks or the demo are to run: a fifth of the
 *   packages is enough for the services
 * @returns {number} npm's exit code
 */
export function install(root, { needsDevelopment }) {
  const args = [
    'ci',
    '--ignore-scripts',
    '--include=optional',
    ...(needsDevelopment
      ? ['--include=dev']
      : ['--omit=dev', `--workspace=${programWorkspace}`, '--include-workspace-root']),
    '--engine-strict=false',
    '--loglevel=error',
  ]
  // Under `npm run`, npm names its own program; otherwise take the one on the PATH.
  const npmProgram = process.env['npm_execpath']
  const result = npmProgram?.endsWith('.js')
    ? spawnSync(process.execPath, [npmProgram, ...args], { cwd: root, stdio: ['ignore', 2, 2] })
    : spawnSync('npm', args, { cwd: root, stdio: ['ignore', 2, 2], shell: process.platform === 'win32' })
  if (result.error) console.error(`tributary: cannot run npm: ${result.error.message}`)
  return result.status ?? 1
}

/**
 * The Node to run with: the one from node_modules, else the current one when it is new enough, else undefined.
 *
 * @param {string} root
 * @returns {string | undefined}
 */
export function findNode(root) {
  const file = process.platform === 'win32' ? 'node.exe' : 'node'
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const installed = join(root, 'node_modules', `node-${platform}-${process.arch}`, 'bin', file)
  // Asked for its version, because a binary for another C library exists and yet does not start.
  if (
    existsSync(installed) &&
    majorOf(spawnSync(installed, ['--version'], { encoding: 'utf8' }).stdout) >= nodeMajorMin
  ) {
    return installed
  }
  return majorOf(process.version) >= nodeMajorMin ? process.execPath : undefined
}

/** @param {string | null} version */
function majorOf(version) {
  return Number(/^v(\d+)\./.exec(version ?? '')?.[1] ?? 0)
}
