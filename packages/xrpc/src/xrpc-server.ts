import type { IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Lexicons } from '@atproto/lexicon'
import type { Logger } from '@tributary/telemetry'
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { sendBareError } from './bare-response.ts'
import { CallerTurns } from './caller-turns.ts'
import { clientAddressReader, trustedProxyCheck } from './client-address.ts'
import { allowOrigins, answerPreflight, type CorsOptions } from './cors.ts'
import { checkOutput, decodeInput } from './input.ts'
import { methodDefinition } from './lexicons.ts'
import { limitAnswers } from './limit-answers.ts'
import { limitArriving, type ArrivingBytesMax } from './limit-arriving.ts'
import { limitConnections } from './limit-connections.ts'
import { openFilesMax } from './open-files.ts'
import { decodeParams, type Params } from './params.ts'
import { pathOf, queryStringOf } from './request-url.ts'
import { Upgrades } from './upgrades.ts'
import { XrpcError, defaultErrorNames, toXrpcError, type ErrorNames } from './xrpc-error.ts'

const megabyte = 1024 * 1024
/** Bytes of requests that are arriving. */
const arrivingBytesMax: ArrivingBytesMax = { all: 256 * megabyte, perAddress: 32 * megabyte }
/** Bytes of answers that their callers have not taken. */
const answerBytesMax = 256 * megabyte
/** Of the files that a process may open: the others are for what it keeps on the disk, and for what it asks of others. */
const connectionsShare = 3 / 4
/** The time for a request's headers to arrive. */
const headersTimeoutMs = 10_000
/** The time for a whole request to arrive, unless the options say otherwise. */
const requestTimeoutMs = 30_000
/** How often requests that take too long are looked for. Node's own default, 30 s, would let them stay that much longer. */
const timeoutCheckMs = 1_000
/** A connection on which nothing moves for this long is closed, except upgraded ones. */
const idleTimeoutMs = 120_000
/** Longer than the usual 60 s of proxies, so that it is the proxy that ends an idle connection. */
const keepAliveTimeoutMs = 65_000
/** How long close() waits for open requests and sockets before it ends them. */
const closeGraceMs = 3_000
/** Length of a query or a body above which it is decoded in turns: one that names 10,000 DIDs takes some 20 ms. */
const longLength = 16 * 1024
/** Calls with long queries or bodies that wait. Each may hold a request of a megabyte or two. */
const longWaiting = { perNetwork: 20, all: 200 }
/** How much of an unknown path is repeated to whoever asked for it. */
const shownCharsMax = 350
const mediaType = /^\s*[^\s/;]+\/[^\s/;]+\s*(;|$)/

export interface XrpcServerOptions {
  lexicons: Lexicons
  logger: Logger
  /** Largest request body. Default 2 MiB. */
  bodyBytesMax?: number
  /** Largest request head, in which long parameter lists count too. Default 64 KiB. */
  headerBytesMax?: number
  /** The time in milliseconds for a whole request to arrive. Default 30,000. */
  requestTimeoutMs?: number
  /**
   * Most connections at a time. A further one takes the place of the newest of the network that has most, or is dropped.
   * Default 20,000, or three quarters of the files that the process may open if that is less.
   */
  connectionsMax?: number
  /** The same for one network (`networkOf`). Trusted proxies may have any number. Default 2,000. */
  connectionsPerAddressMax?: number
  /** Most bytes of requests that are arriving. Default 256 MiB in all and 32 MiB of one network. */
  arrivingBytesMax?: ArrivingBytesMax
  /**
   * Most bytes of answers that their callers have not taken. Beyond it the connection is closed that holds most, of the
   * network that holds most. Default 256 MiB.
   */
  answerBytesMax?: number
  /** Addresses and networks whose X-Forwarded-For is believed. Default none. */
  trustedProxies?: readonly string[]
  /** Value of the Server header. Default none. */
  serverHeader?: string
  /** Opens /xrpc/ to pages of every origin. Default off. */
  cors?: boolean | CorsOptions
  errorNames?: Partial<ErrorNames>
}

export interface RouteContext {
  request: FastifyRequest
  /** A handler that sends through it, or returns it, takes the answer over. */
  reply: FastifyReply
  clientAddress: string
}
export interface QueryContext<P> extends RouteContext {
  params: P
}
export interface ProcedureContext<P, I> extends QueryContext<P> {
  input: I
}
/** A WebSocket request whose handshake has not been answered. */
export interface UpgradeContext {
  request: IncomingMessage
  socket: Duplex
  head: Buffer
  clientAddress: string
}
/** A request for a WebSocket, before anything is answered. */
export interface SubscriptionContext<P> {
  params: P
  request: IncomingMessage
  clientAddress: string
}
/** Answers the handshake of a request that was looked at. */
export type AcceptSubscription = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'

export class XrpcServer {
  /** For what the methods below do not offer. Paths added here directly answer other HTTP methods with 404. */
  readonly fastify: FastifyInstance
  /** Who sent a request, behind trusted proxies too. */
  readonly clientAddressOf: (request: IncomingMessage) => string
  readonly #lexicons: Lexicons
  readonly #logger: Logger
  readonly #errorNames: ErrorNames
  readonly #cors: CorsOptions | undefined
  readonly #methodsByPath = new Map<string, Method[]>()
  readonly #upgrades: Upgrades
  readonly #longTurns = new CallerTurns(longWaiting)

  constructor(options: XrpcServerOptions) {
    this.#lexicons = options.lexicons
    this.#logger = options.logger
    this.#errorNames = { ...defaultErrorNames, ...options.errorNames }
    this.#cors = options.cors === true ? {} : options.cors || undefined
    const isTrusted = trustedProxyCheck(options.trustedProxies ?? [])
    this.clientAddressOf = clientAddressReader(isTrusted)
    const serverHeaders = options.serverHeader === undefined ? {} : { Server: options.serverHeader }
    this.#upgrades = new Upgrades(options.logger, this.#errorNames, serverHeaders)
    this.fastify = this.#createFastify(options)
    const { connectionsMax = 20_000, connectionsPerAddressMax: perAddress = 2000 } = options
    const all = Math.min(connectionsMax, Math.floor(openFilesMax() * connectionsShare))
    if (all < connectionsMax / 2)
      options.logger.warn(
        { connections: all, wanted: connectionsMax },
        'this process may open few files, and so has few connections: raise the limit of open files',
      )
    limitConnections(this.fastify.server, { all, perAddress }, isTrusted)
    limitArriving(this.fastify.server, options.arrivingBytesMax ?? arrivingBytesMax, isTrusted)
    limitAnswers(this.fastify.server, options.answerBytesMax ?? answerBytesMax, this.clientAddressOf)
    this.fastify.server.headersTimeout = Math.min(
      headersTimeoutMs,
      options.requestTimeoutMs ?? requestTimeoutMs,
    )
    this.fastify.server.on('upgrade', (request, socket, head) => this.#upgrades.take(request, socket, head))
  }

  /**
   * Answers GET /xrpc/<nsid>. `P` is the type of the lexicon's parameters; what arrives is checked against it.
   * @param options.methods with `HEAD` the handler gets such requests too, and sends no body then.
   */
  query<P = Params>(
    nsid: string,
    handler: (context: QueryContext<P>) => unknown,
    options: { methods?: readonly ['GET', 'HEAD'?] } = {},
  ): void {
    const { methods = ['GET'] } = options
    const definition = methodDefinition(this.#lexicons, nsid, 'query')
    const answer = async (context: RouteContext): Promise<unknown> => {
      const { request, clientAddress } = context
      const params = await this.decode(request.raw, clientAddress, () =>
        decodeParams(this.#lexicons, nsid, definition.parameters, queryStringOf(request.url)),
      )
      const output = await handler({ ...context, params: params as P }) // checked against the lexicon that P mirrors
      if (!isTakenOver(context.reply, output)) checkOutput(this.#lexicons, nsid, definition, output)
      return output
    }
    for (const method of methods) if (method) this.route(method, `/xrpc/${nsid}`, answer)
  }

  /**
   * Answers POST /xrpc/<nsid>. With `rawInput` the handler gets the body's bytes unchecked, for methods that have an
   * order of checks of their own.
   */
  procedure<P = Params>(
    nsid: string,
    handler: (context: ProcedureContext<P, Uint8Array>) => unknown,
    options: { rawInput: true },
  ): void
  procedure<P = Params, I = unknown>(
    nsid: string,
    handler: (context: ProcedureContext<P, I>) => unknown,
    options?: { rawInput?: false },
  ): void
  procedure(
    nsid: string,
    // Either of the two above: which one fits follows from the options, and the lexicon checks what it gets.
    handler: (context: ProcedureContext<never, never>) => unknown,
    options: { rawInput?: boolean } = {},
  ): void {
    const definition = methodDefinition(this.#lexicons, nsid, 'procedure')
    this.route('POST', `/xrpc/${nsid}`, async (context) => {
      const { request, reply, clientAddress } = context
      const params = decodeParams(this.#lexicons, nsid, definition.parameters, queryStringOf(request.url))
      const bytes = request.body instanceof Uint8Array ? request.body : new Uint8Array()
      const contentType = request.headers['content-type']
      const input =
        options.rawInput === true
          ? bytes
          : await this.#inTurn(bytes.length, clientAddress, () =>
              decodeInput(this.#lexicons, nsid, definition, { bytes, contentType }),
            )
      const output = await handler({ ...context, params: params as never, input: input as never }) // see above
      if (!isTakenOver(reply, output)) checkOutput(this.#lexicons, nsid, definition, output)
      return output
    })
  }

  /**
   * Hands WebSocket requests for /xrpc/<nsid> over, before the handshake is answered. An XrpcError that `open` throws is
   * answered as a plain HTTP error. Who asks without a handshake is refused likewise, because a browser does not tell a page
   * why a handshake was refused; where it would have been accepted, the answer is 426 `UpgradeRequired`.
   * @param open looks at a request, and gives what accepts it.
   * @param options.admit is called before the parameters are decoded; what it throws is answered likewise.
   */
  subscription<P = Params>(
    nsid: string,
    open: (context: SubscriptionContext<P>) => AcceptSubscription | Promise<AcceptSubscription>,
    options: { admit?: (clientAddress: string) => void } = {},
  ): void {
    const definition = methodDefinition(this.#lexicons, nsid, 'subscription')
    const accepted = async (request: IncomingMessage): Promise<AcceptSubscription> => {
      const clientAddress = this.clientAddressOf(request)
      options.admit?.(clientAddress)
      const params = await this.decode(request, clientAddress, () =>
        decodeParams(this.#lexicons, nsid, definition.parameters, queryStringOf(request.url)),
      )
      return await open({ params: params as P, request, clientAddress }) // checked, as for queries
    }
    this.#upgrades.add(`/xrpc/${nsid}`, 'json', async (request, socket, head) => {
      const accept = await accepted(request)
      accept(request, socket, head)
    })
    this.route('GET', `/xrpc/${nsid}`, async ({ request }) => {
      await accepted(request.raw)
      throw new XrpcError(426, 'UpgradeRequired', `${nsid} is a WebSocket: connect with a WebSocket client`, {
        Upgrade: 'websocket',
      })
    })
  }

  /**
   * Hands WebSocket requests for any other path over, before the handshake is answered. Every refusal is plain text, also
   * that of a request which is no WebSocket.
   */
  webSocket(path: string, handler: (context: UpgradeContext) => Promise<void>): void {
    this.#upgrades.add(path, 'text', (request, socket, head) =>
      handler({ request, socket, head, clientAddress: this.clientAddressOf(request) }),
    )
    this.route('GET', path, ({ reply }) =>
      reply
        .status(426)
        .header('Upgrade', 'websocket')
        .type('text/plain; charset=utf-8')
        .send(`${path} is a WebSocket: connect with a WebSocket client\n`),
    )
  }

  /**
   * Decodes what a request asks for, in its network's turn if its query is long.
   * @throws what `decode` throws, or XrpcError 429 `RateLimitExceeded` when too many of its network wait.
   */
  async decode<T>({ url = '' }: IncomingMessage, clientAddress: string, decode: () => T): Promise<T> {
    return this.#inTurn(url.length, clientAddress, decode)
  }

  async #inTurn<T>(length: number, clientAddress: string, decode: () => T): Promise<T> {
    return length > longLength ? await this.#longTurns.run(clientAddress, decode) : decode()
  }

  /** Answers any other path. What the handler returns is sent: objects as JSON, strings as text. */
  route(method: Method, path: string, handler: (context: RouteContext) => unknown): void {
    this.#methodsByPath.set(path, [...(this.#methodsByPath.get(path) ?? []), method])
    this.fastify.route({
      method,
      url: path,
      handler: async (request, reply) => {
        const output = await handler({ request, reply, clientAddress: this.clientAddressOf(request.raw) })
        if (isTakenOver(reply, output)) return reply
        return reply.send(output)
      },
    })
  }

  /** Starts to accept requests. Port 0 takes a free one. `url` is one that works on this machine. */
  async listen({ host, port }: { host: string; port: number }): Promise<{ url: string; port: number }> {
    await this.fastify.listen({ host, port })
    const address = this.fastify.server.address() as AddressInfo // listening on TCP, so it is neither a pipe nor null
    const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
    const authority = reachable.includes(':') ? `[${reachable}]` : reachable
    return { url: `http://${authority}:${address.port}`, port: address.port }
  }

  /** Stops accepting, lets open requests finish, and ends what is still open after 3 s, upgraded sockets included. */
  async close(): Promise<void> {
    const timer = setTimeout(() => {
      this.fastify.server.closeAllConnections()
      this.#upgrades.destroySockets()
    }, closeGraceMs)
    try {
      await this.fastify.close()
    } finally {
      clearTimeout(timer)
    }
  }

  #createFastify(options: XrpcServerOptions): FastifyInstance {
    const instance = fastify({
      logger: false,
      bodyLimit: options.bodyBytesMax ?? 2 * megabyte,
      requestTimeout: options.requestTimeoutMs ?? requestTimeoutMs,
      connectionTimeout: idleTimeoutMs,
      keepAliveTimeout: keepAliveTimeoutMs,
      forceCloseConnections: 'idle',
      exposeHeadRoutes: false,
      routerOptions: { querystringParser: () => ({}) }, // parameters are read by their lexicon
      schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
      http: {
        maxHeaderSize: options.headerBytesMax ?? 64 * 1024,
        connectionsCheckingInterval: timeoutCheckMs,
        shouldUpgradeCallback: (request) => this.#upgrades.accepts(request),
      },
      clientErrorHandler: (error, socket) => answerUnparsable(error.code, socket),
      frameworkErrors: (error, request, reply) => void this.#answerError(error, request, reply),
    })
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    instance.addHook('onRequest', async (request, reply) => {
      if (options.serverHeader !== undefined) reply.header('Server', options.serverHeader)
      reply.header('X-Content-Type-Options', 'nosniff')
      if (this.#cors !== undefined && request.url.startsWith('/xrpc/')) allowOrigins(reply, this.#cors)
      // Fastify would refuse a type it cannot read before the method is asked; here that counts as none.
      if (!mediaType.test(request.headers['content-type'] ?? '')) delete request.raw.headers['content-type']
      if (request.is404) return this.#answerUnknown(request, reply)
      return undefined
    })
    instance.setErrorHandler((error, request, reply) => this.#answerError(error, request, reply))
    return instance
  }

  /** Decides about a request that no route took, before its body is read. */
  #answerUnknown(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const path = pathOf(request.url)
    const methods = this.#methodsByPath.get(path)
    if (methods === undefined && path.startsWith('/xrpc/')) {
      const nsid = path.slice('/xrpc/'.length, shownCharsMax)
      throw new XrpcError(501, 'MethodNotImplemented', `this server has no method ${nsid}`)
    }
    if (methods === undefined) {
      throw new XrpcError(404, 'NotFound', `nothing is at ${path.slice(0, shownCharsMax)}`)
    }
    if (request.method === 'OPTIONS' && this.#cors !== undefined && path.startsWith('/xrpc/')) {
      return answerPreflight(request, reply, methods, this.#cors)
    }
    const allow = methods.join(', ')
    throw new XrpcError(405, this.#errorNames.methodNotAllowed, `use ${allow} for ${path}`, { Allow: allow })
  }

  #answerError(thrown: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { error, isUnexpected } = toXrpcError(thrown, this.#errorNames)
    if (isUnexpected) this.#logger.error({ err: thrown, path: pathOf(request.url) }, 'request failed')
    return reply
      .status(error.status)
      .headers(error.headers)
      .send({ error: error.error, message: error.message })
  }
}

/** Creates a server that speaks the methods of `lexicons`. It answers nothing until methods are added and it listens. */
export function createXrpcServer(options: XrpcServerOptions): XrpcServer {
  return new XrpcServer(options)
}

function isTakenOver(reply: FastifyReply, output: unknown): boolean {
  return reply.sent || output === reply
}

/** Lexicons say what is valid. The compilers that fastify would load for schemas are 113 modules. */
function noSchemas(): never {
  throw new Error('a route has a schema of its own')
}

/** Answers what is no HTTP request, or one whose head is too long or too slow. */
function answerUnparsable(code: string, socket: Socket): void {
  if (code === 'ECONNRESET') {
    socket.destroy()
  } else if (code === 'HPE_HEADER_OVERFLOW') {
    sendBareError(socket, new XrpcError(431, 'InvalidRequest', 'The request line and headers are too long.'))
  } else if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    sendBareError(socket, new XrpcError(408, 'InvalidRequest', 'The request took too long to arrive.'))
  } else {
    sendBareError(socket, new XrpcError(400, 'InvalidRequest', 'This is not an HTTP/1.1 request.'))
  }
}
