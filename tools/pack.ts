/**
 * npm run pack [-- DIRECTORY]: makes the tarballs of `@tributary/client` and of `tributary` as they are published: JavaScript,
 * with declarations for the client, out of the sources of the packages that each is made of. The command also holds most
 * packages of others (see bundle-dependencies.ts). The repository itself runs its TypeScript as it is.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundleDependencies, bundleOf, isBundled, packageOf } from './bundle-dependencies.ts'

const root = join(import.meta.dirname, '..')
/** Imported only by what is not for those who install a package, and reported by the program when it is missing. */
const leftOut = '@tributary/testkit'
/** The directory for packages of others that are part of the tarball. */
const bundles = 'bundled'
/** A program that is started as a thread, or forked. */
const threadUrl = /new URL\('(?:\.\/)?([\w-]+)\.ts', import\.meta\.url\)/g

interface Manifest {
  name: string
  version: string
  license: string
  exports?: string | Record<string, string>
  dependencies?: Record<string, string>
}

/** What a tarball is made of. Paths are those of the repository. */
interface Parcel {
  manifest: Record<string, unknown>
  /** Sources that are compiled, with all that they import. */
  files: readonly string[]
  target: 'es2022' | 'esnext'
  hasDeclarations: boolean
  /** Whether packages of others are made part of the tarball. A library leaves them to those who install it. */
  bundlesDependencies: boolean
  readme: string
  /** Further files, by their places in the tarball. */
  copies: Readonly<Record<string, string>>
}

const workspaces = globSync('{packages,apps}/*/package.json', { cwd: root }).map((file) => ({
  directory: dirname(file),
  manifest: readManifest(join(root, file)),
}))

/** The source file of every entry of every workspace, by its name, such as `@tributary/client/node`. */
const entries = new Map(
  workspaces.flatMap(({ directory, manifest: { name, exports = {} } }) =>
    Object.entries(typeof exports === 'string' ? { '.': exports } : exports).map(
      ([subpath, path]) => [join(name, subpath), join(directory, path)] as const,
    ),
  ),
)

/** Makes the tarball of the client in a directory, and returns its path. */
export function packClient(directory: string): string {
  const entryOf = (name: string) => {
    const path = `./dist/packages/client/src/${name}`
    return { types: `${path}.d.ts`, default: `${path}.js` }
  }
  return pack(directory, {
    manifest: {
      ...published('@tributary/client'),
      description:
        'Reads AT Protocol record streams: their archive, their live events, or both as one sequence',
      // The oldest Node that the tarball is tested with.
      engines: { node: '>=20.12' },
      exports: { '.': entryOf('index'), './node': entryOf('node'), './package.json': './package.json' },
      files: ['dist', 'CHANGELOG.md'],
    },
    files: ['packages/client/src/index.ts', 'packages/client/src/node.ts'],
    target: 'es2022',
    hasDeclarations: true,
    bundlesDependencies: false,
    readme: 'packages/client/README.md',
    copies: {},
  })
}

/** Makes the tarball of the command and all services in a directory, and returns its path. */
export function packProgram(directory: string): string {
  const services = ['relay', 'stream', 'index', 'feed']
  return pack(directory, {
    manifest: {
      ...published('tributary'),
      description: 'Relay, record stream and activity feed services for AT Protocol applications',
      engines: { node: '>=24' },
      bin: { tributary: 'bin/tributary.mjs' },
      files: ['bin', 'dist', 'CHANGELOG.md'],
    },
    files: [
      ...['tributary', ...services].map((name) => `apps/${name}/src/main.ts`),
      ...globSync('{packages,apps}/*/src/**/*.ts', { cwd: root })
        .filter((file) => !/\.test\.ts$|^packages\/testkit\//.test(file))
        .flatMap(threadsOf),
    ],
    target: 'esnext',
    hasDeclarations: false,
    bundlesDependencies: true,
    readme: 'README.md',
    copies: {
      'bin/tributary.mjs': 'apps/tributary/bin/packed.mjs',
      'bin/launch.mjs': 'tools/launch.mjs',
      'bin/end-with-parent.mjs': 'tools/end-with-parent.mjs',
      'dist/lexicons': 'lexicons',
      'dist/packages/zstd-dictionary/dictionary': 'packages/zstd-dictionary/dictionary',
    },
  })
}

function threadsOf(file: string): string[] {
  const source = readFileSync(join(root, file), 'utf8')
  return Array.from(source.matchAll(threadUrl), ([, name = '']) => join(dirname(file), `${name}.ts`))
}

function pack(directory: string, parcel: Parcel): string {
  const work = mkdtempSync(join(tmpdir(), 'tributary-pack-'))
  try {
    const home = join(work, 'package')
    compile(work, parcel)
    const dist = join(home, 'dist')
    const bundled = parcel.bundlesDependencies ? isBundled : () => false
    const used = linkModules(dist, bundled)
    if (used.bundled.size > 0)
      bundleDependencies([...used.bundled], join(dist, bundles), join(work, 'bundles'))
    const manifest = { ...parcel.manifest, dependencies: versionsOf(used.installed) }
    writeFileSync(join(home, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
    const copies = {
      ...parcel.copies,
      'README.md': parcel.readme,
      LICENSE: 'LICENSE',
      'CHANGELOG.md': 'CHANGELOG.md',
    }
    for (const [to, from] of Object.entries(copies))
      cpSync(join(root, from), join(home, to), { recursive: true })
    if (existsSync(join(home, 'bin')))
      for (const name of readdirSync(join(home, 'bin'))) chmodSync(join(home, 'bin', name), 0o755)
    mkdirSync(directory, { recursive: true })
    const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', directory]
    return join(directory, run('npm', args, home).trim())
  } finally {
    rmSync(work, { recursive: true })
  }
}

function compile(work: string, { files, target, hasDeclarations }: Parcel): void {
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      noCheck: true,
      allowJs: false,
      checkJs: false,
      declaration: hasDeclarations,
      rewriteRelativeImportExtensions: true,
      target,
      rootDir: root,
      outDir: join(work, 'package/dist'),
      // By their names they would count as packages of others, which are not compiled.
      paths: Object.fromEntries(
        [...entries]
          .filter(([name]) => !name.startsWith(leftOut))
          .map(([name, path]) => [name, [join(root, path)]]),
      ),
      typeRoots: [join(root, 'node_modules/@types')],
    },
    // Declarations of packages that have none are imported by nobody.
    files: [...files, ...globSync('packages/*/src/**/*.d.ts', { cwd: root })].map((file) => join(root, file)),
    include: [],
  }
  const file = join(work, 'tsconfig.json')
  writeFileSync(file, JSON.stringify(config))
  run(process.execPath, [join(root, 'node_modules/.bin/tsc'), '--project', file], root)
}

/**
 * Makes imports between the packages relative ones, also those of what is bundled, and threads JavaScript. Returns what
 * is imported of others: packages to be installed, and imports to be bundled.
 */
function linkModules(
  dist: string,
  bundled: (specifier: string) => boolean,
): { installed: ReadonlySet<string>; bundled: ReadonlySet<string> } {
  const used = { installed: new Set<string>(), bundled: new Set<string>() }
  const specifier = /(\bfrom |\bimport |\bimport\()'([^'.][^']*)'/g
  for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|d\.ts)$/.test(name)) continue
    const file = join(dist, name)
    const link = (whole: string, before: string, what: string): string => {
      if (what.startsWith('node:') || what.startsWith(leftOut)) return whole
      const entry = entries.get(what)
      if (entry === undefined && !bundled(what)) {
        used.installed.add(packageOf(what))
        return whole
      }
      if (entry === undefined) used.bundled.add(what)
      const target = entry?.replace(/\.ts$/, '.js') ?? join(bundles, bundleOf(what))
      const path = relative(dirname(file), join(dist, target)).replaceAll('\\', '/')
      return `${before}'${path.startsWith('.') ? path : `./${path}`}'`
    }
    const text = readFileSync(file, 'utf8')
    writeFileSync(
      file,
      text.replaceAll(specifier, link).replaceAll(threadUrl, "new URL('$1.js', import.meta.url)"),
    )
  }
  return used
}

/** @throws Error when a package is the dependency of no workspace. */
function versionsOf(names: ReadonlySet<string>): Record<string, string> {
  const shipped = workspaces.filter(({ manifest }) => manifest.name !== leftOut)
  const all = new Map(shipped.flatMap(({ manifest }) => Object.entries(manifest.dependencies ?? {})))
  return Object.fromEntries(
    [...names].toSorted().map((name) => {
      const version = all.get(name)
      if (version === undefined) throw new Error(`${name} is imported and is the dependency of no workspace`)
      return [name, version]
    }),
  )
}

/** What the manifest of a workspace says of it that is published too. */
function published(name: string): Record<string, unknown> {
  const found = workspaces.find(({ manifest }) => manifest.name === name)
  if (found === undefined) throw new Error(`there is no workspace ${name}`)
  const { version, license } = found.manifest
  return { name, version, license, type: 'module' }
}

function readManifest(file: string): Manifest {
  return JSON.parse(readFileSync(file, 'utf8')) as Manifest // npm read it before
}

/** Runs a program to its end, and returns what it wrote. @throws Error with its output when it fails. */
function run(program: string, args: readonly string[], directory: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: directory, encoding: 'utf8' })
  if (error) throw error
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`)
  return stdout
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const directory = process.argv[2] ?? 'dist'
  if (directory.startsWith('-')) {
    console.error('usage: npm run pack [-- DIRECTORY], dist unless it is given')
    process.exit(64)
  }
  for (const make of [packClient, packProgram]) console.log(make(resolve(directory)))
}
