/**
 * The feed service: answers both feed methods from the index database, which it only reads. The used-token store is all
 * that it writes. Nothing here calls a PDS or another application server.
 */
import { dirname, join } from 'node:path'
import { Lexicons } from '@atproto/lexicon'
import { createResolver } from '@tributary/identity'
import { type IndexReader, openIndexReader, type WindowBounds } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { makeDirectory, type RunningService } from '@tributary/settings'
import type { Logger } from '@tributary/telemetry'
import { createXrpcServer, loadLexicons, type XrpcServer } from '@tributary/xrpc'
import { createAuthenticator } from './auth/authenticate.ts'
import { LateUsedTokens } from './auth/late-used-tokens.ts'
import { SharedUsedTokens } from './auth/shared-used-tokens.ts'
import { type TokenBounds, UsedTokens } from './auth/used-tokens.ts'
import type { FeedAlgorithm } from './feeds/feed-algorithm.ts'
import { feeds as allFeeds } from './feeds/registry.ts'
import { createFeedMetrics, type FeedMetrics } from './metrics.ts'
import { createCallerRate } from './serve/caller-rate.ts'
import { createFeedCall } from './serve/feed-call.ts'
import { createPageReader } from './serve/page.ts'
import { createPublicServer } from './serve/public-server.ts'
import { createReadiness } from './serve/readiness.ts'
import type { FeedSettings } from './settings.ts'

const didDocumentBytesMax = 131_072
/** Identities of callers that are kept: 16 MB. */
const identitiesMax = 20_000

export interface FeedContext {
  readonly logger: Logger
  /** Milliseconds since 1970; the system's clock unless given. */
  readonly now?: () => number
  /** Those of this repository unless given. */
  readonly lexicons?: Lexicons
  /** Those of the registry unless given. */
  readonly feeds?: readonly FeedAlgorithm[]
  /** How pages of many accounts are selected: as the index store does unless given. */
  readonly window?: WindowBounds
}

export interface FeedService extends RunningService {
  /** Base address of the public listener. */
  readonly address: string
  /** Base address of the private listener, when there is one. */
  readonly metricsAddress: string | undefined
}

/**
 * Starts the service. Throws when a listener or the file of used tokens cannot be opened. The index may come later, and its
 * directory with it: until then the service is not ready, and calls fail. A shared database of used tokens may come later, too:
 * until then calls with a token fail.
 */
export async function startFeed(settings: FeedSettings, context: FeedContext): Promise<FeedService> {
  const { logger, now = Date.now, lexicons = loadLexicons(), feeds = allFeeds, window } = context
  const { requestMs, queryMs, trustedProxies } = settings
  const serviceDid = settings.serviceDid as Did // its pattern is that of a DID
  await using resources = new AsyncDisposableStack()
  const metrics = createFeedMetrics()
  const index = resources.use(
    openIndexReader(settings.databaseUrl ?? settings.databasePath, window && { window }),
  )
  const bounds = {
    perIssuer: settings.tokensPerIssuer,
    perNetwork: settings.tokensPerNetwork,
    inAll: settings.tokensMax,
  }
  const openShared = async (url: string): Promise<SharedUsedTokens> => {
    const store = new SharedUsedTokens(url, now, bounds)
    await store.prepare().catch((error: unknown) => {
      logger.error(
        { err: error },
        'the database of used tokens is away; calls with a token fail until it is back',
      )
    })
    return store
  }
  if (settings.databaseUrl !== undefined && settings.usedTokensUrl === undefined)
    logger.info('usedTokensUrl is not set: each feed on this database takes a token once for itself')
  const usedTokens =
    settings.usedTokensUrl === undefined
      ? resources.use(openUsedTokens(settings, now, bounds, logger))
      : resources.use(await openShared(settings.usedTokensUrl))

  const authenticate = createAuthenticator({
    serviceDid,
    maxTokenAgeSeconds: settings.maxTokenAgeSeconds,
    resolver: createResolver({
      plcUrl: settings.plcUrl,
      allowedPrivateHosts: settings.allowedPrivateHosts,
      documentBytesMax: didDocumentBytesMax,
      timeoutMs: settings.didDocumentMs,
      redirectsMax: 0,
      cacheMax: identitiesMax,
      nowMs: now,
    }),
    resolutionMs: settings.didDocumentMs,
    usedTokens,
    now,
  })
  const readPage = createPageReader({
    index,
    queryMs,
    labelers: settings.labelers as readonly Did[], // their pattern is that of a DID
    metrics,
    now,
  })
  const call = createFeedCall({ lexicons, feeds, authenticate, readPage })
  const takeRate = createCallerRate({ perMinute: settings.requestsPerMinute, burst: settings.requestBurst })
  const server = createPublicServer({
    lexicons,
    serviceDid,
    call,
    isReady: createReadiness(() => isReadable(index, queryMs, logger), now),
    takeCall: (clientAddress) => takeRate(clientAddress, now()),
    trustedProxies,
    requestMs,
    metrics,
    logger,
  })

  const metricsAddress = await listenForMetrics(settings, metrics, logger, resources)
  const address = await listen(server, settings, resources)
  // A mistyped place looks like an index that is still to come, so the start says where it has looked.
  void index
    .snapshot({ timeoutMs: queryMs }, (view) => view.probe())
    .catch((error: unknown) =>
      logger.info({ reason: String(error) }, 'calls fail until the index can be read'),
    )
  const started = resources.move()
  return { address, metricsAddress, [Symbol.asyncDispose]: () => started.disposeAsync() }
}

/** The private listener, with `GET /metrics` and nothing else. */
async function listenForMetrics(
  { metricsHost, metricsPort }: FeedSettings,
  { registry }: FeedMetrics,
  logger: Logger,
  resources: AsyncDisposableStack,
): Promise<string | undefined> {
  if (metricsPort === undefined) return undefined
  const server = createXrpcServer({ lexicons: new Lexicons(), logger })
  server.route('GET', '/metrics', async ({ reply }) =>
    reply.type(registry.contentType).send(await registry.text()),
  )
  return listen(server, { host: metricsHost, port: metricsPort }, resources)
}

async function listen(
  server: XrpcServer,
  at: { readonly host: string; readonly port: number },
  resources: AsyncDisposableStack,
): Promise<string> {
  resources.defer(() => server.close())
  const { url } = await server.listen(at)
  return url
}

/** The directory of a file of its own is made. That of the index database is not, because its place may be mistyped. */
function openUsedTokens(
  { usedTokensPath, databasePath, databaseUrl }: FeedSettings,
  now: () => number,
  bounds: TokenBounds,
  logger: Logger,
): LateUsedTokens {
  const path = usedTokensPath ?? join(dirname(databasePath), 'feed-used-tokens.sqlite')
  const directory = dirname(path)
  if (usedTokensPath !== undefined || databaseUrl !== undefined) makeDirectory(directory)
  const store = new LateUsedTokens(path, () => new UsedTokens(path, now, bounds))
  if (!store.isOpen)
    logger.warn(
      { directory },
      'the directory of the index database is missing: calls fail until the index makes it',
    )
  return store
}

async function isReadable(index: IndexReader, timeoutMs: number, logger: Logger): Promise<boolean> {
  try {
    await index.snapshot({ timeoutMs }, (view) => view.probe())
    return true
  } catch (error) {
    logger.warn({ err: error }, 'the index cannot be read')
    return false
  }
}
