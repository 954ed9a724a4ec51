/**
 * Makes one file out of each package of others that a tarball imports, so that few packages are installed with it. Files
 * that several of them need are shared. Packages with compiled code stay dependencies, because npm brings the right ones.
 * The licences of all that is inside go along, with names and versions.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildSync } from 'esbuild'

/** Where it is by itself: the places of what is bundled are told from there. */
const modules = realpathSync(join(import.meta.dirname, '../node_modules'))
/** Packages with compiled code. */
const native: ReadonlySet<string> = new Set(['better-sqlite3', 'secp256k1'])
/** Faster parts that `pg` and `ws` look for and do without. */
const lookedFor = ['pg-native', 'bufferutil', 'utf-8-validate']
/** CommonJS modules ask for modules of Node with `require`, and for their folder, which a module of today does not have. */
const banner = `import { createRequire as createRequireOf } from 'node:module'; const require = createRequireOf(import.meta.url), __dirname = import.meta.dirname;`

/** The name of the package that an import like `kysely/migration` is of. */
export function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** Whether an import can be made part of the tarball. */
export function isBundled(specifier: string): boolean {
  return !native.has(packageOf(specifier))
}

/** The name of the file that an import becomes. */
export function bundleOf(specifier: string): string {
  return `${specifier.replace(/^@/, '').replaceAll('/', '-')}.js`
}

/**
 * Writes the files for these imports into `directory`, which is made. `work` is for files that nobody needs later.
 *
 * @throws Error when a package cannot be bundled, or has no licence.
 */
export function bundleDependencies(specifiers: readonly string[], directory: string, work: string): void {
  const entries = join(work, 'entries')
  mkdirSync(entries, { recursive: true })
  symlinkSync(modules, join(work, 'node_modules'), 'junction')
  const names = exportedNames(specifiers, work)
  for (const specifier of specifiers) {
    // As our sources see it: a CommonJS module has a default export, and the names that Node finds.
    const list = (names[specifier] ?? []).join(', ')
    writeFileSync(join(entries, bundleOf(specifier)), `export { ${list} } from '${specifier}'\n`)
  }
  // With it esbuild reads default exports as Node does.
  writeFileSync(join(entries, 'package.json'), '{ "type": "module" }')
  const { metafile } = buildSync({
    entryPoints: specifiers.map((specifier) => join(entries, bundleOf(specifier))),
    outdir: directory,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    external: lookedFor,
    banner: { js: banner },
    legalComments: 'none',
    metafile: true,
    absWorkingDir: modules,
    logLevel: 'error',
  })
  const inside = Object.keys(metafile.inputs).flatMap((file) => {
    const found = /^(?:.*\/node_modules\/)?(?:@[^/]+\/)?[^/.][^/]*(?=\/)/.exec(file)?.[0]
    return found === undefined ? [] : [found]
  })
  const licences = [...new Set(inside)].toSorted().map(licenceOf)
  writeFileSync(join(directory, 'LICENSES.txt'), licences.join('\n\n'))
}

/** What each of these modules exports when Node imports it. */
function exportedNames(specifiers: readonly string[], work: string): Record<string, string[]> {
  const script = `const names = {}
    for (const specifier of ${JSON.stringify(specifiers)}) names[specifier] = Object.keys(await import(specifier))
    console.log(JSON.stringify(names))`
  const args = ['--input-type=module', '--eval', script]
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: work, encoding: 'utf8' })
  if (status !== 0) throw new Error(`a dependency cannot be imported: ${stderr}`)
  const names = JSON.parse(stdout) as Record<string, string[]> // as the script wrote it
  const isIdentifier = (name: string): boolean => /^[\w$]+$/.test(name)
  return Object.fromEntries(
    Object.entries(names).map(([specifier, exported]) => [specifier, exported.filter(isIdentifier)]),
  )
}

function licenceOf(place: string): string {
  const directory = join(modules, place)
  const text = readFileSync(join(directory, 'package.json'), 'utf8')
  const { name, version, license } = JSON.parse(text) as Record<string, string> // npm read it before
  const files = readdirSync(directory, { withFileTypes: true })
    .filter((file) => file.isFile() && /^(licen[cs]e|copying|notice)/i.test(file.name))
    .map((file) => file.name)
  if (license === undefined && files.length === 0) throw new Error(`${name} has no licence`)
  const texts = files.map((file) => readFileSync(join(directory, file), 'utf8').trim())
  return [`# ${name} ${version} (${license ?? 'see below'})`, ...texts].join('\n\n')
}
