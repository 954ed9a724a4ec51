/** A package registry on loopback, with what this repository has installed: an install into an empty project needs no network. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, dirname, join } from 'node:path'

interface Manifest {
  name: string
  version: string
  dependencies?: Record<string, string>
  optionalDependencies?: Record<string, string>
}

interface Published {
  manifest: Manifest
  tarball: Buffer
}

export class LocalRegistry implements AsyncDisposable {
  readonly #packages: ReadonlyMap<string, readonly Published[]>
  readonly #server = createServer(({ url = '' }, response) => {
    const [, name = '', version] = decodeURIComponent(url.slice(1)).match(/^(.+?)(?:\/-\/(.+)\.tgz)?$/) ?? []
    const versions = this.#packages.get(name)
    if (versions === undefined) response.writeHead(404).end('{}')
    else if (version === undefined) response.end(JSON.stringify(this.#describe(name, versions)))
    else response.end(versions.find(({ manifest }) => manifest.version === version)?.tarball)
  })

  private constructor(packages: ReadonlyMap<string, readonly Published[]>) {
    this.#packages = packages
  }

  /** Offers packages by their names, as they are installed for the file `from`, and all that they need. */
  static async start(names: readonly string[], from: string, workDirectory: string): Promise<LocalRegistry> {
    const directories = new Set<string>()
    const visit = (name: string, place: string): void => {
      const directory = installedAt(name, place)
      if (directory === undefined) throw new Error(`${name} is not installed for ${place}`)
      if (directories.has(directory)) return
      directories.add(directory)
      const { dependencies = {}, optionalDependencies = {} } = manifestOf(directory)
      for (const needed of Object.keys(dependencies)) {
        // Packages for other platforms are among them too, and are not installed here.
        if (optionalDependencies[needed] === undefined || installedAt(needed, directory))
          visit(needed, directory)
      }
    }
    for (const name of names) visit(name, dirname(from))
    const packages = new Map<string, Published[]>()
    for (const directory of directories) {
      const manifest = manifestOf(directory)
      const { name, version } = manifest
      const others = packages.get(name) ?? []
      if (others.some((other) => other.manifest.version === version)) continue
      const file = join(workDirectory, `${name.replace(/^@/, '').replace('/', '-')}-${version}.tgz`)
      packages.set(name, [...others, { manifest, tarball: pack(directory, file) }])
    }
    const registry = new LocalRegistry(packages)
    registry.#server.listen(0, '127.0.0.1')
    await once(registry.#server, 'listening')
    return registry
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // listening on a port
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #describe(name: string, published: readonly Published[]): object {
    const versions = published.map(({ manifest, tarball }) => {
      const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
      const dist = { tarball: `${this.url}/${name}/-/${manifest.version}.tgz`, integrity }
      return [manifest.version, { ...manifest, dist }] as const
    })
    return { name, 'dist-tags': { latest: versions[0]?.[0] }, versions: Object.fromEntries(versions) }
  }
}

/** What is installed is what was published; `npm pack` would start npm for it. */
function pack(directory: string, file: string): Buffer {
  // In a copy of the repository it is a link.
  const place = realpathSync(directory)
  const args = ['czf', file, '--exclude=node_modules', '-C', dirname(place), basename(place)]
  const { status, stderr } = spawnSync('tar', args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`tar failed: ${stderr}`)
  return readFileSync(file)
}

/** Where a package is installed for files in `place`. */
function installedAt(name: string, place: string): string | undefined {
  for (let directory = place; ; directory = dirname(directory)) {
    const found = join(directory, 'node_modules', name)
    if (existsSync(join(found, 'package.json'))) return found
    if (directory === dirname(directory)) return undefined
  }
}

function manifestOf(directory: string): Manifest {
  return JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest // as npm installed it
}
