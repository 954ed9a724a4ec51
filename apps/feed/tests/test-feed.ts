/** A listening feed service over a real index database, with a host of DID documents, all on loopback. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Lexicons } from '@atproto/lexicon'
import Sqlite from 'better-sqlite3'
import type { WindowBounds } from '@tributary/index-store'
import { readSettings, toEnvironment } from '@tributary/settings'
import { createLogger, type Logger } from '@tributary/telemetry'
import { newPostgresDatabase, runOnPostgres } from '@tributary/testkit'
import { loadLexicons } from '@tributary/xrpc'
import type { FeedAlgorithm } from '../src/feeds/feed-algorithm.ts'
import { startFeed, type FeedService } from '../src/service.ts'
import { feedSettings, type FeedSettings } from '../src/settings.ts'
import { DidHost } from './did-host.ts'
import { IndexFixture } from './index-fixture.ts'
import { did } from './sample.ts'
import { getFeed, getFeedSkeleton, serviceDid } from './token-issuer.ts'

export interface TestFeedOptions {
  readonly settings?: Partial<FeedSettings>
  readonly now?: () => number
  readonly lexicons?: Lexicons
  readonly logger?: Logger
  readonly feeds?: readonly FeedAlgorithm[]
  readonly window?: WindowBounds
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly body: { readonly [field: string]: unknown } & {
    readonly error?: string
    readonly message?: string
    readonly cursor?: string
    readonly feed?: readonly Item[]
  }
  readonly text: string
}

export interface Item {
  readonly subject: string
  readonly view: {
    readonly $type: string
    readonly kind: string
    readonly actor: object
    readonly content: Record<string, unknown>
  }
}

export interface Page {
  readonly feed: readonly Item[]
  readonly cursor?: string
}

export const viewer = did('viewer')
export const impactFeedId = 'org.impact.feed.defs#impactFeed'
const lexicons = loadLexicons()
const quiet = createLogger('feed', { level: 'silent' })

export class TestFeed implements AsyncDisposable {
  readonly index: IndexFixture
  readonly didHost: DidHost
  readonly directory: string
  /** Path or URL of the index database. */
  readonly #place: string
  readonly #options: TestFeedOptions
  #service: FeedService

  private constructor(
    index: IndexFixture,
    didHost: DidHost,
    directory: string,
    place: string,
    service: FeedService,
    options: TestFeedOptions,
  ) {
    this.index = index
    this.didHost = didHost
    this.directory = directory
    this.#place = place
    this.#service = service
    this.#options = options
  }

  static async start(options: TestFeedOptions = {}): Promise<TestFeed> {
    const directory = await mkdtemp(join(tmpdir(), 'feed-'))
    const place = (await newPostgresDatabase()) ?? join(directory, 'index.sqlite')
    const index = await IndexFixture.open(place)
    const didHost = await DidHost.start()
    const service = await startService(directory, place, didHost, options)
    return new TestFeed(index, didHost, directory, place, service, options)
  }

  get url(): string {
    return this.#service.address
  }

  get metricsUrl(): string | undefined {
    return this.#service.metricsAddress
  }

  /** Stops the service and starts it again on the same files. */
  async restart(): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
    this.#service = await startService(this.directory, this.#place, this.didHost, this.#options)
  }

  /** POSTs to a feed method. The body is sent as it is when it is text. */
  async call(method: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const response = await fetch(`${this.url}/xrpc/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return reply(response)
  }

  /** Calls with V as the viewer of an anonymous request, more parameters, and more fields beside them. */
  ask(method: string, params: object = {}, fields: object = {}): Promise<Reply> {
    return this.call(method, request({ viewerDid: viewer, ...params }, fields))
  }

  /** A page of addresses. Fails when the answer is not 200. */
  async skeleton(
    params: object = {},
    fields: object = {},
  ): Promise<{ subjects: string[]; cursor: string | undefined }> {
    const { status, body, text } = await this.ask(getFeedSkeleton, params, fields)
    if (status !== 200 || !body.feed) throw new Error(`${status}: ${text}`)
    return { subjects: body.feed.map(({ subject }) => subject), cursor: body.cursor }
  }

  /** A page of entries. Fails when the answer is not 200. */
  async page(params: object = {}, fields: object = {}): Promise<Page> {
    const { status, body, text } = await this.ask(getFeed, params, fields)
    if (status !== 200 || !body.feed) throw new Error(`${status}: ${text}`)
    return { feed: body.feed, ...(body.cursor === undefined ? {} : { cursor: body.cursor }) }
  }

  /** Makes an index database at another path. */
  otherIndex(path: string): Promise<IndexFixture> {
    return IndexFixture.open(path)
  }

  /** Makes every later read of the index fail. */
  async breakIndex(): Promise<void> {
    const statements = 'drop table entries; drop table follows'
    if (isUrl(this.#place)) return runOnPostgres(this.#place, statements)
    // The same library as the service has: two in one process take each other's locks for their own.
    const sqlite = new Sqlite(this.#place)
    sqlite.exec(statements)
    sqlite.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
    await this.index[Symbol.asyncDispose]()
    await this.didHost[Symbol.asyncDispose]()
    await rm(this.directory, { recursive: true })
  }
}

function isUrl(place: string): boolean {
  return place.startsWith('postgres:')
}

/** The body of a request to the impact feed. */
export function request(params: object, fields: object = {}): object {
  return {
    feedId: impactFeedId,
    params: { $type: 'org.impact.feed.defs#impactFeedParams', ...params },
    ...fields,
  }
}

export async function reply(response: Response): Promise<Reply> {
  const text = await response.text()
  const body: unknown = text === '' ? {} : JSON.parse(text)
  return { status: response.status, headers: response.headers, body: body as Reply['body'], text } // tests look into it
}

function startService(
  directory: string,
  place: string,
  didHost: DidHost,
  options: TestFeedOptions,
): Promise<FeedService> {
  const settings = readSettings(feedSettings, {
    env: toEnvironment(feedSettings, {
      port: 0,
      serviceDid,
      databasePath: join(directory, 'index.sqlite'),
      ...(isUrl(place) && { databaseUrl: place }),
      plcUrl: didHost.url,
      labelers: [did('labeler')],
      requestsPerMinute: 0,
      ...options.settings,
    }),
  })
  return startFeed(settings, { logger: quiet, lexicons, ...options })
}
