import type { FastifyReply, FastifyRequest } from 'fastify'
import { XrpcError } from './xrpc-error.ts'

export interface CorsOptions {
  /** Request headers that a page of another origin may send. Default: content-type, authorization. */
  allowHeaders?: readonly string[]
  /** Response headers that such a page may read, besides the ones browsers always show. */
  exposeHeaders?: readonly string[]
}

const preflightAgeSeconds = 600
/** Characters of a list of header names. A list of a megabyte would take a tenth of a second. */
const wantedHeadersMax = 4096

/** Opens the XRPC paths to every origin, without credentials. */
export function allowOrigins(reply: FastifyReply, { exposeHeaders = [] }: CorsOptions): void {
  reply.header('Access-Control-Allow-Origin', '*')
  if (exposeHeaders.length > 0) reply.header('Access-Control-Expose-Headers', exposeHeaders.join(', '))
}

/** Answers a browser's question whether it may call a path that takes these methods. Throws XrpcError 400 when it may not. */
export function answerPreflight(
  request: FastifyRequest,
  reply: FastifyReply,
  methods: readonly string[],
  { allowHeaders = ['content-type', 'authorization'] }: CorsOptions,
): FastifyReply {
  const wantedMethod = request.headers['access-control-request-method']
  const wantedHeaders = request.headers['access-control-request-headers'] ?? ''
  const allow = methods.join(', ')
  if (wantedMethod === undefined || !methods.includes(wantedMethod)) {
    throw new XrpcError(400, 'InvalidRequest', `Access-Control-Request-Method must be ${allow}`)
  }
  if (wantedHeaders.length > wantedHeadersMax) {
    const message = `Access-Control-Request-Headers may have ${wantedHeadersMax} characters`
    throw new XrpcError(400, 'InvalidRequest', message)
  }
  const refused = wantedHeaders
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .find((name) => name !== '' && !allowHeaders.includes(name))
  if (refused !== undefined)
    throw new XrpcError(400, 'InvalidRequest', `the header ${refused} is not accepted`)
  return reply
    .status(204)
    .header('Access-Control-Allow-Methods', allow)
    .header('Access-Control-Allow-Headers', allowHeaders.join(', '))
    .header('Access-Control-Max-Age', String(preflightAgeSeconds))
    .send()
}
