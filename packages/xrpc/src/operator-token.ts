import { hash, timingSafeEqual } from 'node:crypto'
import { XrpcError } from './xrpc-error.ts'
import type { XrpcServer } from './xrpc-server.ts'

/** The token of an `Authorization: Bearer` header. Undefined when there is none of a possible form. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return authorization && /^Bearer +([\x21-\x7e]{1,1024}) *$/i.exec(authorization)?.[1]
}

/**
 * Lets only the holder of the operator token call the methods whose NSID starts with `prefix`, before their body is
 * read. Others get 401 `AuthenticationRequired`. Answers are not to be stored by anyone.
 */
export function requireOperatorToken(server: XrpcServer, prefix: string, operatorToken: string): void {
  const expected = digest(operatorToken)
  server.fastify.addHook('onRequest', async (request, reply) => {
    if (request.routeOptions.url?.startsWith(`/xrpc/${prefix}`) !== true) return
    reply.header('Cache-Control', 'no-store')
    const token = bearerToken(request.headers.authorization)
    // Equal digests mean equal tokens, whatever their lengths.
    if (token === undefined || !timingSafeEqual(digest(token), expected)) {
      const message =
        token === undefined
          ? 'Send the operator token as Authorization: Bearer <token>'
          : 'This is not the operator token'
      throw new XrpcError(401, 'AuthenticationRequired', message, { 'WWW-Authenticate': 'Bearer' })
    }
  })
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
