import { fileURLToPath } from 'node:url'
import { loadRotationKey } from './create-load.ts'
import { freePort } from './free-port.ts'
import { readLoadInfo } from './load-file.ts'
import type { LoadInfo } from './load-file.ts'
import type { LoadHostSettings } from './load-host.ts'
import type { PlayOptions } from './load-replay.ts'
import { pdsService } from './plc-identity.ts'
import { startProcess } from './service-process.ts'
import type { ServiceProcess } from './service-process.ts'

export interface ServeLoadOptions {
  /** As given to `createLoad`. */
  file: string
  /** Over how many hosts the accounts are spread, each on a port of its own. Default 1. */
  hosts?: number
  /** One listening address per host instead, each 127.x; a host is then named by its address. */
  addresses?: readonly string[]
  /** How long the PLC directory takes to answer. Default: no time. */
  directoryDelayMs?: number
}

/** A child process that is the hosts of a load and the PLC directory of its accounts. */
export class LoadHost implements AsyncDisposable {
  readonly info: LoadInfo
  /** The hosts as a relay knows them, `localhost:PORT`. */
  readonly hosts: readonly string[]
  readonly process: ServiceProcess

  constructor(info: LoadInfo, hosts: readonly string[], process: ServiceProcess) {
    this.info = info
    this.hosts = hosts
    this.process = process
  }

  get plcUrl(): string {
    return this.process.url
  }

  /**
   * Makes further events available: `count` of them or all, at `rate` events a second over all hosts
   * or as fast as readers take them. At the start there are none. Settles when the last one is
   * available; how far readers are is theirs to tell. Returns the number of events available.
   */
  async play(options: PlayOptions = {}): Promise<number> {
    return this.process.request<number>('play', options)
  }

  /** How many events are available. */
  async position(): Promise<number> {
    return this.process.request<number>('position')
  }

  /**
   * When each event was handed to its first reader, in milliseconds on the clock that count readers
   * use too; 0 for those that were not.
   */
  async sendTimesMs(): Promise<Float64Array> {
    return this.process.request<Float64Array>('sendTimes')
  }

  async stop(): Promise<void> {
    await this.process.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** Starts the hosts of a load that `createLoad` made. No event is available before `play`. */
export async function serveLoad(options: ServeLoadOptions): Promise<LoadHost> {
  const { file, hosts: count = 1 } = options
  const addresses = options.addresses ?? Array.from({ length: count }, () => '127.0.0.1')
  const sources: LoadHostSettings['sources'] = []
  for (const address of addresses) {
    const port = await freePort()
    const name = address === '127.0.0.1' ? 'localhost' : address
    sources.push({ address, port, host: `${name}:${port}` })
  }
  const settings: LoadHostSettings = { file, sources, directoryDelayMs: options.directoryDelayMs ?? 0 }
  const entry = fileURLToPath(import.meta.resolve('./load-host.ts'))
  const child = await startProcess(entry, { args: [JSON.stringify(settings)] })
  return new LoadHost(
    readLoadInfo(file),
    sources.map(({ host }) => host),
    child,
  )
}

/** Registrations under way at once. */
const registrationsMax = 8

/**
 * Registers the accounts of a load in a real PLC directory, as living on `hosts`: its first operation
 * and one that names the host. About 10 ms per account.
 */
export async function registerLoad(options: {
  file: string
  plcUrl: string
  hosts: readonly string[]
}): Promise<void> {
  const { plcUrl, hosts } = options
  const { accounts, parameters } = readLoadInfo(options.file)
  const { Client, createUpdateOp } = await import('@did-plc/lib')
  const client = new Client(plcUrl)
  const waiting = accounts.entries()
  const work = async (): Promise<void> => {
    for (const [index, { did, genesis }] of waiting) {
      await client.sendOperation(did, genesis)
      const services = pdsService(`http://${hosts[index % hosts.length]}`)
      const key = loadRotationKey(parameters.seed, index)
      await client.sendOperation(did, await createUpdateOp(genesis, key, (data) => ({ ...data, services })))
    }
  }
  await Promise.all(Array.from({ length: registrationsMax }, work))
}
