/**
 * The services as a viewer meets them: events go in at a stream, the real index folds them, the real feed is asked over
 * HTTP. Each case of the feed specification plays among accounts of its own.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { feedSettings, startFeed, type FeedService } from '@tributary/feed'
import { indexSettings, startIndex } from '@tributary/index'
import type { Did, StreamEvent } from '@tributary/protocol'
import { readSettings, type RunningService, toEnvironment } from '@tributary/settings'
import { createLogger } from '@tributary/telemetry'
import Sqlite from 'better-sqlite3'
import { eventually, newPostgresDatabase, runOnPostgres, SmallStream, tidAt } from '@tributary/testkit'
import { Directory, Signed } from './directory.ts'
import { cidOf, didOf, noon, type Ref } from './made.ts'

export const serviceDid = 'did:web:feed.example'
export const labelers = [new Signed(didOf('labelerl')), new Signed(didOf('labelerm'))] as const

export interface WorldOptions {
  /** Called before the services start. */
  readonly prepare?: (directory: Directory) => void | Promise<void>
  /** The labelers that are trusted. Default: both. */
  readonly labelers?: readonly Signed[]
}

export class World implements AsyncDisposable {
  readonly directory: Directory
  /** The feed's clock. */
  readonly clock = { nowMs: Date.parse(noon) }
  readonly #stream: SmallStream
  readonly #resources: AsyncDisposableStack
  #databasePath = ''
  #tokensPath = ''
  /** Of the PostgreSQL database, when the cases are played on one. */
  #databaseUrl: string | undefined
  #index: RunningService | undefined
  #feed: FeedService | undefined
  #seq = 0
  /** The last event that the index is known to have folded. It does not go back. */
  #settledSeq = 0

  private constructor(directory: Directory, stream: SmallStream, resources: AsyncDisposableStack) {
    this.directory = directory
    this.#stream = stream
    this.#resources = resources
  }

  static async start({ prepare, labelers: trusted = labelers }: WorldOptions = {}): Promise<World> {
    await using resources = new AsyncDisposableStack()
    const directory = resources.use(await Directory.start())
    const stream = resources.use(await SmallStream.start([]))
    const folder = mkdtempSync(join(tmpdir(), 'conformance-'))
    resources.defer(() => rmSync(folder, { recursive: true }))
    await prepare?.(directory)
    const world = new World(directory, stream, resources.move())
    try {
      await world.#startServices(folder, trusted)
    } catch (error) {
      // What goes on listening would keep the test file from its end.
      await world[Symbol.asyncDispose]()
      throw error
    }
    return world
  }

  async #startServices(folder: string, trusted: readonly Signed[]): Promise<void> {
    const { directory, clock } = this
    this.#databasePath = join(folder, 'index.sqlite')
    this.#tokensPath = join(folder, 'feed-used-tokens.sqlite')
    this.#databaseUrl = await newPostgresDatabase()
    const shared = {
      port: 0,
      ...(this.#databaseUrl === undefined
        ? { databasePath: this.#databasePath }
        : { databaseUrl: this.#databaseUrl }),
      plcUrl: directory.url,
      labelers: trusted.map(({ did }) => did),
      allowedPrivateHosts: ['127.0.0.1'],
    }
    const index = readSettings(indexSettings, {
      env: toEnvironment(indexSettings, {
        ...shared,
        streamUrl: this.#stream.url,
        handleHosts: [`test=${directory.url}`],
      }),
    })
    const logger = createLogger('conformance', { level: 'silent' })
    this.#index = this.#resources.use(
      await startIndex(index, { logger, signal: new AbortController().signal }),
    )
    const feed = readSettings(feedSettings, {
      env: toEnvironment(feedSettings, {
        ...shared,
        ...(this.#databaseUrl === undefined
          ? { usedTokensPath: this.#tokensPath }
          : { usedTokensUrl: this.#databaseUrl }),
        serviceDid,
        requestsPerMinute: 0,
      }),
    })
    this.#feed = this.#resources.use(await startFeed(feed, { logger, now: () => clock.nowMs }))
  }

  get feedUrl(): string {
    return this.#feed?.address ?? ''
  }

  /** The next event's number. */
  nextSeq(): number {
    return ++this.#seq
  }

  send(event: StreamEvent): void {
    this.#stream.send(event)
  }

  /** A stored record's address and content, and the event that brings it. */
  put(did: Did, collection: string, rkey: string, record: object, time: string): Ref {
    const cid = cidOf(record)
    const path = { collection, rkey } as Pick<StreamEvent & { kind: 'commit' }, 'collection' | 'rkey'> // valid ones
    const seq = this.nextSeq()
    const commit = { kind: 'commit', operation: 'create', rev: tidAt(seq * 1000), cid } as const
    this.send({ ...commit, seq, did, time, ...path, record: { ...record } })
    return { uri: `at://${did}/${collection}/${rkey}`, cid }
  }

  /** Does to the database what nobody should. */
  async onDatabase(statement: string): Promise<void> {
    if (this.#databaseUrl !== undefined) return runOnPostgres(this.#databaseUrl, statement)
    // The same library as the services have: two in one process take each other's locks for their own.
    const sqlite = new Sqlite(this.#databasePath, { timeout: 0 })
    // The index of this process goes on with its transaction while we wait, and not while SQLite does.
    await eventually(() => {
      try {
        sqlite.exec(statement)
        return true
      } catch (error) {
        if (error instanceof Sqlite.SqliteError && error.code === 'SQLITE_BUSY') return false
        throw error
      }
    })
    sqlite.close()
  }

  /** Stores so many tokens of an issuer as spent by calls from here, as another process on the same store would. */
  async fillTokens(issuer: Did, count: number, goneAtMs: number): Promise<void> {
    const rows = (nonce: string, numbers: string): string =>
      `insert into "usedTokens" ("issuer", "nonce", "goneAtMs", "network")
       select '${issuer}', ${nonce}, ${goneAtMs}, '127.0.0.1' from ${numbers}`
    if (this.#databaseUrl !== undefined)
      return this.onDatabase(rows(`convert_to('n' || n, 'UTF8')`, `generate_series(1, ${count}) as n`))
    const numbers = `(with recursive all_of(n) as (select 1 union all select n + 1 from all_of where n < ${count}) select n from all_of)`
    const sqlite = new Sqlite(this.#tokensPath)
    sqlite.exec(rows(`'n' || n`, numbers))
    sqlite.close()
  }

  /** Resolves when the index has folded all that was sent. */
  async settled(): Promise<void> {
    const url = `${this.#index?.address}/ready`
    let seen: unknown
    const look = async (): Promise<boolean> => {
      seen = await (await fetch(url)).json()
      const cursor: unknown = typeof seen === 'object' && seen !== null && Reflect.get(seen, 'cursor')
      if (cursor === this.#seq) this.#settledSeq = this.#seq
      return this.#settledSeq === this.#seq
    }
    if (this.#settledSeq !== this.#seq) await eventually(look, () => ({ seen, wanted: this.#seq }))
  }

  /** Resolves when the index counts so many in a metric. */
  async counted(metric: RegExp, count: number): Promise<void> {
    let text = ''
    await eventually(
      async () => {
        text = await (await fetch(`${this.#index?.address}/metrics`)).text()
        return Number(metric.exec(text)?.[1] ?? 0) >= count
      },
      () => ({ metric: metric.source, seen: metric.exec(text)?.[0] }),
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources.disposeAsync()
  }
}
