import { hash, randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { freePort } from './free-port.ts'
import { launchPds } from './pds-launch.ts'
import type { PdsSettings } from './pds-launch.ts'
import { adminAuthorization, callProcedure, callQuery } from './xrpc-call.ts'

/** What a test can choose about a PDS. */
export interface PdsOptions
  extends
    Pick<PdsSettings, 'plcUrl' | 'directory'>,
    Pick<Partial<PdsSettings>, 'handleDomain' | 'crawlers' | 'more'> {}

/** One repository as `com.atproto.sync.listRepos` tells it. */
export interface ListedRepo {
  did: string
  head: string
  rev: string
  active?: boolean
  status?: string
}

export interface ListedRecord {
  uri: string
  cid: string
  value: Record<string, unknown>
}

const pageSize = 100

/** A real PDS of a test network, startable and stoppable on the same data and port. */
export class Pds implements AsyncDisposable {
  readonly #settings: PdsSettings
  #running: Awaited<ReturnType<typeof launchPds>> | undefined

  constructor(settings: PdsSettings) {
    this.#settings = settings
  }

  /** `localhost:PORT`, the name a relay knows it by. */
  get host(): string {
    return `localhost:${this.#settings.port}`
  }

  get url(): string {
    return `http://${this.host}`
  }

  get did(): string {
    return `did:web:localhost%3A${this.#settings.port}`
  }

  get plcUrl(): string {
    return this.#settings.plcUrl
  }

  get handleDomain(): string {
    return this.#settings.handleDomain
  }

  get adminPassword(): string {
    return this.#settings.adminPassword
  }

  /** Starts it. After `stop()` it comes back with its data, cursor and sessions. */
  async start(): Promise<void> {
    if (this.#running !== undefined) throw new Error(`${this.host} runs already`)
    this.#running = await launchPds(this.#settings)
  }

  async stop(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    await running?.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  /** Every repository of this PDS, as it lists them. */
  async listRepos(): Promise<ListedRepo[]> {
    const listed: ListedRepo[] = []
    let cursor: string | undefined
    do {
      const page: { repos: ListedRepo[]; cursor?: string } = await callQuery(
        this.url,
        'com.atproto.sync.listRepos',
        { params: { limit: pageSize, cursor } },
      )
      listed.push(...page.repos)
      cursor = page.cursor
    } while (cursor !== undefined)
    return listed
  }

  /** Every record of one collection of one account, as the PDS lists them. */
  async listRecords(did: string, collection: string): Promise<ListedRecord[]> {
    const listed: ListedRecord[] = []
    let cursor: string | undefined
    do {
      const page: { records: ListedRecord[]; cursor?: string } = await callQuery(
        this.url,
        'com.atproto.repo.listRecords',
        { params: { repo: did, collection, limit: pageSize, cursor } },
      )
      listed.push(...page.records)
      cursor = page.cursor
    } while (cursor !== undefined)
    return listed
  }

  /** The collections in which an account has records. */
  async listCollections(did: string): Promise<string[]> {
    const described = await callQuery<{ collections: string[] }>(this.url, 'com.atproto.repo.describeRepo', {
      params: { repo: did },
    })
    return described.collections
  }

  /** Takes an account down as the operator of this PDS, or lifts that. */
  async takedown(did: string, applied = true): Promise<void> {
    await callProcedure(this.url, 'com.atproto.admin.updateSubjectStatus', {
      authorization: adminAuthorization(this.adminPassword),
      input: {
        subject: { $type: 'com.atproto.admin.defs#repoRef', did },
        takedown: { applied, ref: 'test' },
      },
    })
  }

  /** Deletes an account as the operator of this PDS. Its entry in the PLC directory stays. */
  async deleteAccount(did: string): Promise<void> {
    await callProcedure(this.url, 'com.atproto.admin.deleteAccount', {
      authorization: adminAuthorization(this.adminPassword),
      input: { did },
    })
  }

  /** Makes the PDS sign for an account with another K-256 key from now on. Returns the one before. */
  replaceSigningKey(did: string, key: Uint8Array): Uint8Array {
    const shard = hash('sha256', did, 'hex').slice(0, 2)
    const path = join(this.#settings.directory, 'actors', shard, did, 'key')
    const before = readFileSync(path)
    writeFileSync(path, key)
    return before
  }

  /** The token that the PDS would have sent by mail. Throws when none was asked for. */
  emailToken(did: string, purpose: 'delete_account' | 'plc_operation'): string {
    const path = join(this.#settings.directory, 'account.sqlite')
    using database = new DatabaseSync(path, { readOnly: true })
    const row = database
      .prepare('SELECT token FROM email_token WHERE did = ? AND purpose = ?')
      .get(did, purpose)
    if (row === undefined) throw new Error(`${this.host} sent no ${purpose} token to ${did}`)
    return String(row['token'])
  }
}

async function settingsFor(options: PdsOptions): Promise<PdsSettings> {
  const port = await freePort()
  const directory = join(options.directory, `pds-${port}`)
  mkdirSync(directory, { recursive: true })
  return {
    handleDomain: `.pds${port}.test`,
    ...options,
    port,
    directory,
    adminPassword: `admin-${port}`,
    rotationKeyHex: randomBytes(32).toString('hex'),
  }
}

/** Starts a new, empty PDS in this process, with its data in a folder under `directory`. */
export async function startPds(options: PdsOptions): Promise<Pds> {
  const pds = new Pds(await settingsFor(options))
  await pds.start()
  return pds
}
