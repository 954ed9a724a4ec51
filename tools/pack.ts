/**
 * npm run pack [-- DIRECTORY]: makes the tarball of `@tributary/client` as it is published, JavaScript with declarations, out
 * of the sources of the packages that it is made of. The repository itself runs its TypeScript as it is.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(import.meta.dirname, '..')
/** The packages that go into the tarball, and their entries. */
const entries: Readonly<Record<string, string>> = {
  '@tributary/client': 'client/src/index',
  '@tributary/client/node': 'client/src/node',
  '@tributary/protocol': 'protocol/src/index',
  '@tributary/segment': 'segment/src/index',
  '@tributary/segment/zstd': 'segment/src/zstd',
}
const members = ['client', 'protocol', 'segment'] as const
/** The oldest Node that the tarball is tested with. */
const engines = { node: '>=20.12' }

interface Manifest {
  version: string
  license: string
  dependencies: Record<string, string>
}

/** Makes the tarball in a directory, and returns its path. */
export function packClient(directory: string): string {
  const work = mkdtempSync(join(tmpdir(), 'tributary-pack-'))
  try {
    const dist = join(work, 'package', 'dist')
    compile(work, dist)
    const used = linkModules(dist)
    writeManifest(join(work, 'package'), used)
    for (const file of ['LICENSE', 'CHANGELOG.md']) cpSync(join(root, file), join(work, 'package', file))
    cpSync(join(root, 'packages/client/README.md'), join(work, 'package', 'README.md'))
    mkdirSync(directory, { recursive: true })
    const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', directory]
    return join(directory, run('npm', args, join(work, 'package')).trim())
  } finally {
    rmSync(work, { recursive: true })
  }
}

function compile(work: string, dist: string): void {
  const config = {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      allowJs: false,
      checkJs: false,
      declaration: true,
      rewriteRelativeImportExtensions: true,
      target: 'es2022',
      rootDir: join(root, 'packages'),
      outDir: dist,
      // By their names they would count as packages of others, which are not compiled.
      paths: Object.fromEntries(
        Object.entries(entries).map(([name, path]) => [name, [join(root, 'packages', `${path}.ts`)]]),
      ),
      typeRoots: [join(root, 'node_modules/@types')],
    },
    files: [join(root, 'packages/client/src/index.ts'), join(root, 'packages/client/src/node.ts')],
    include: [],
  }
  const file = join(work, 'tsconfig.json')
  writeFileSync(file, JSON.stringify(config))
  run(process.execPath, [join(root, 'node_modules/.bin/tsc'), '--project', file], root)
}

/**
 * Makes imports between the packages relative ones. Returns the packages of others that are imported.
 * @throws Error for a package of ours that is not in the tarball.
 */
function linkModules(dist: string): ReadonlySet<string> {
  const used = new Set<string>()
  const specifier = /(\bfrom |\bimport |\bimport\()'([^'.][^']*)'/g
  for (const name of readdirSync(dist, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|d\.ts)$/.test(name)) continue
    const file = join(dist, name)
    const text = readFileSync(file, 'utf8').replaceAll(specifier, (whole, before: string, what: string) => {
      if (what.startsWith('node:')) return whole
      if (!what.startsWith('@tributary/')) {
        used.add(
          what
            .split('/')
            .slice(0, what.startsWith('@') ? 2 : 1)
            .join('/'),
        )
        return whole
      }
      const entry = entries[what]
      if (entry === undefined) throw new Error(`${name} imports ${what}, which is not in the tarball`)
      const path = relative(dirname(file), join(dist, entry)).replaceAll('\\', '/')
      return `${before}'${path.startsWith('.') ? path : `./${path}`}.js'`
    })
    writeFileSync(file, text)
  }
  return used
}

function writeManifest(directory: string, used: ReadonlySet<string>): void {
  const manifests = members.map(
    (member) => JSON.parse(readFileSync(join(root, 'packages', member, 'package.json'), 'utf8')) as Manifest, // of this repository
  )
  const versions = Object.assign({}, ...manifests.map(({ dependencies }) => dependencies)) as Record<
    string,
    string
  > // names and versions
  const dependencies = Object.fromEntries([...used].toSorted().map((name) => [name, versions[name]]))
  const entryOf = (path: string) => ({ types: `./dist/${path}.d.ts`, default: `./dist/${path}.js` })
  const manifest = {
    name: '@tributary/client',
    version: manifests[0]?.version,
    description:
      'Reads AT Protocol record streams: their archive, their live events, or both as one sequence',
    license: manifests[0]?.license,
    type: 'module',
    engines,
    exports: {
      '.': entryOf('client/src/index'),
      './node': entryOf('client/src/node'),
      './package.json': './package.json',
    },
    files: ['dist', 'CHANGELOG.md'],
    dependencies,
  }
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
}

/** Runs a program to its end, and returns what it wrote. @throws Error with its output when it fails. */
function run(program: string, args: readonly string[], directory: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { cwd: directory, encoding: 'utf8' })
  if (error) throw error
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`)
  return stdout
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  console.log(packClient(resolve(process.argv[2] ?? 'dist')))
}
