/** The public listener (feed.md 2.2 and 3.5): both feed methods, and a few paths for operators and resolvers. */
import type { ServerResponse } from 'node:http'
import type { Lexicons } from '@atproto/lexicon'
import type { Did } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { programVersion } from '@tributary/settings'
import { XrpcError, createXrpcServer, type XrpcServer } from '@tributary/xrpc'
import { TokenRefusedError } from '../auth/refusal.ts'
import type { FeedMetrics } from '../metrics.ts'
import type { FeedCall } from './feed-call.ts'
import { feedMethods, type FeedMethod } from './feed-method.ts'
import { serviceIdentity } from './service-identity.ts'

/** A request with 128 evaluators of 256 bytes takes about 36,000. */
const bodyBytesMax = 65_536
const xrpcPrefix = '/xrpc/'

export interface PublicServerParts {
  readonly lexicons: Lexicons
  readonly serviceDid: Did
  readonly call: FeedCall
  /** Whether the index can be read now. Says nothing about how fresh it is. */
  readonly isReady: () => Promise<boolean>
  /** Throws for a caller that calls too often. */
  readonly takeCall: (clientAddress: string) => void
  /** Proxies whose word about the caller's address counts. */
  readonly trustedProxies: readonly string[]
  /** Time for a request to arrive whole. */
  readonly requestMs: number
  readonly metrics: FeedMetrics
  readonly logger: Logger
}

export function createPublicServer(parts: PublicServerParts): XrpcServer {
  const { lexicons, logger, isReady } = parts
  const server = createXrpcServer({
    lexicons,
    logger,
    bodyBytesMax,
    requestTimeoutMs: parts.requestMs,
    trustedProxies: parts.trustedProxies,
    cors: true,
    errorNames: { methodNotAllowed: 'InvalidRequest', tooLarge: 'InvalidRequest', internal: 'InternalError' },
  })
  addHooks(server, parts.metrics)
  for (const method of feedMethods) addFeedMethod(server, method, parts)

  server.route('GET', '/', () => ({
    service: 'org.impact.feed',
    methods: feedMethods.map((method) => `POST ${xrpcPrefix}${method}`),
  }))
  server.route('GET', '/health', () => ({ status: 'ok' }))
  // Where every service has it.
  const version = programVersion()
  server.route('GET', '/_health', () => ({ status: 'ok', version }))
  server.route('GET', '/ready', async ({ reply }) => {
    if (await isReady()) return { status: 'ready' }
    return reply.status(503).send({ status: 'not_ready', reason: 'the index database cannot be read' })
  })
  addServiceIdentity(server, parts.serviceDid)
  return server
}

function addFeedMethod(
  server: XrpcServer,
  method: FeedMethod,
  { call, takeCall }: Pick<PublicServerParts, 'call' | 'takeCall'>,
): void {
  server.procedure(
    method,
    async ({ input, request, reply, clientAddress }) => {
      takeCall(clientAddress)
      const page = await call(method, input, request.headers, clientAddress, goneSignal(reply.raw))
      return reply.type('application/json; charset=utf-8').send(page)
    },
    { rawInput: true },
  )
}

/** Aborts when the connection closes before the answer was sent. */
function goneSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  response.once('close', () => {
    // The error that an abort makes costs as much as a statement.
    if (!response.writableFinished) gone.abort()
  })
  return gone.signal
}

function addHooks({ fastify }: XrpcServer, metrics: FeedMetrics): void {
  fastify.addHook('onRequest', async ({ url }, reply) => {
    if (url.startsWith(xrpcPrefix)) reply.header('Cache-Control', 'no-store')
  })
  fastify.addHook('onError', async (_request, _reply, error) => {
    if (error instanceof TokenRefusedError) metrics.tokenRefused(error.fault)
  })
  fastify.addHook('onResponse', async ({ url }, { statusCode, elapsedTime }) => {
    const method = feedMethods.find((name) => url.split('?', 1)[0] === xrpcPrefix + name)
    if (method) metrics.answered(method, statusCode, elapsedTime / 1000)
  })
}

/** The identity document, on its own host name only. Every other DID has its document elsewhere. */
function addServiceIdentity(server: XrpcServer, serviceDid: Did): void {
  const identity = serviceIdentity(serviceDid)
  server.route('GET', '/.well-known/did.json', ({ request }) => {
    const host = request.headers.host?.replace(/:\d+$/, '').toLowerCase()
    if (identity && host === identity.host) return identity.document
    throw new XrpcError(404, 'NotFound', 'the document of this service is not served at this address')
  })
}
