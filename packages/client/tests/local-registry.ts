/** A package registry on loopback, with what this repository has installed: an install into an empty project needs no network. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'

interface Manifest {
  name: string
  version: string
  dependencies?: Record<string, string>
}

interface Published {
  manifest: Manifest
  tarball: Buffer
}

export class LocalRegistry implements AsyncDisposable {
  readonly #packages: ReadonlyMap<string, Published>
  readonly #server = createServer(({ url = '' }, response) => {
    const [, name = '', version] = decodeURIComponent(url.slice(1)).match(/^(.+?)(?:\/-\/(.+)\.tgz)?$/) ?? []
    const found = this.#packages.get(name)
    if (found === undefined) response.writeHead(404).end('{}')
    else if (version !== undefined) response.end(found.tarball)
    else response.end(JSON.stringify(this.#describe(found)))
  })

  private constructor(packages: ReadonlyMap<string, Published>) {
    this.#packages = packages
  }

  /** Offers packages by their names, as they are installed for the file `from`, and all that they need. */
  static async start(names: readonly string[], from: string, workDirectory: string): Promise<LocalRegistry> {
    const directories = new Map<string, string>()
    const visit = (name: string, place: string): void => {
      if (directories.has(name)) return
      const directory = installedAt(name, place)
      directories.set(name, directory)
      for (const needed of Object.keys(manifestOf(directory).dependencies ?? {})) visit(needed, directory)
    }
    for (const name of names) visit(name, dirname(from))
    const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', workDirectory]
    const { status, stderr } = spawnSync('npm', [...args, ...directories.values()], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`npm pack failed: ${stderr}`)
    const files = readdirSync(workDirectory)
    const packages = new Map<string, Published>()
    for (const [name, directory] of directories) {
      const manifest = manifestOf(directory)
      const file = `${name.replace(/^@/, '').replace('/', '-')}-${manifest.version}.tgz`
      if (!files.includes(file)) throw new Error(`npm made no ${file}`)
      packages.set(name, { manifest, tarball: readFileSync(join(workDirectory, file)) })
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

  #describe({ manifest, tarball }: Published): object {
    const { name, version } = manifest
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
    const dist = { tarball: `${this.url}/${name}/-/${version}.tgz`, integrity }
    return { name, 'dist-tags': { latest: version }, versions: { [version]: { ...manifest, dist } } }
  }
}

/** Where a package is installed for files in `place`. */
function installedAt(name: string, place: string): string {
  for (let directory = place; ; directory = dirname(directory)) {
    const found = join(directory, 'node_modules', name)
    if (existsSync(join(found, 'package.json'))) return found
    if (directory === dirname(directory)) throw new Error(`${name} is not installed for ${place}`)
  }
}

function manifestOf(directory: string): Manifest {
  return JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Manifest // as npm installed it
}
