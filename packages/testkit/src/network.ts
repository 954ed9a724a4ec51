/**
 * A real atproto network on the loopback interface: a PLC directory, any number of PDSs and a
 * labeler, each the software that runs on the public network. Everything lives in one temporary
 * folder and ends with `stop()`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAccount } from './account.ts'
import type { Account } from './account.ts'
import { startLabeler } from './labeler.ts'
import type { Labeler } from './labeler.ts'
import { startPds } from './pds.ts'
import type { Pds, PdsOptions } from './pds.ts'
import { startPlc } from './plc.ts'
import type { Plc } from './plc.ts'

export interface NetworkOptions {
  /** How many PDSs. Default 1. */
  pds?: number
  /** Whether to start a labeler. Default false. */
  labeler?: boolean
  /** Relays that the PDSs announce themselves to, by base address. */
  crawlers?: readonly string[]
  /** Further settings of every PDS, named as in `ServerEnvironment` of `@atproto/pds`. */
  pdsSettings?: PdsOptions['more']
}

export class Network implements AsyncDisposable {
  readonly plc: Plc
  readonly pds: Pds[] = []
  readonly directory: string
  readonly #options: NetworkOptions
  #labeler: Labeler | undefined

  constructor(plc: Plc, directory: string, options: NetworkOptions) {
    this.plc = plc
    this.directory = directory
    this.#options = options
  }

  get plcUrl(): string {
    return this.plc.url
  }

  get labeler(): Labeler {
    if (this.#labeler === undefined) throw new Error('this network has no labeler')
    return this.#labeler
  }

  /** Starts one more PDS; `pds1`, `pds2` and so on are the parts of their handle domains. */
  async addPds(): Promise<Pds> {
    const pds = await startPds({
      plcUrl: this.plcUrl,
      directory: this.directory,
      handleDomain: `.pds${this.pds.length + 1}.test`,
      crawlers: this.#options.crawlers ?? [],
      more: this.#options.pdsSettings ?? {},
    })
    this.pds.push(pds)
    return pds
  }

  async addLabeler(): Promise<void> {
    this.#labeler = await startLabeler({ plcUrl: this.plcUrl, directory: this.directory })
  }

  /** Creates an account on the PDS with index `pds` (default 0), with a unique handle by default. */
  async createAccount(options: { pds?: number; handle?: string; name?: string } = {}): Promise<Account> {
    const { pds = 0, ...names } = options
    const home = this.pds[pds]
    if (home === undefined) throw new RangeError(`there is no PDS ${pds}`)
    return createAccount(home, names)
  }

  /** Stops everything and removes the data. */
  async stop(): Promise<void> {
    await Promise.all([...this.pds.map((pds) => pds.stop()), this.#labeler?.stop()])
    await this.plc.stop()
    rmSync(this.directory, { recursive: true, force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** Starts a network. When a part fails to start, the parts that did are stopped again. */
export async function startNetwork(options: NetworkOptions = {}): Promise<Network> {
  const directory = mkdtempSync(join(tmpdir(), 'tributary-network-'))
  const network = new Network(await startPlc(), directory, options)
  try {
    for (let index = 0; index < (options.pds ?? 1); index++) {
      await network.addPds()
    }
    if (options.labeler === true) await network.addLabeler()
  } catch (error) {
    await network.stop()
    throw error
  }
  return network
}
