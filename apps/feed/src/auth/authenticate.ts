/**
 * Who calls (feed.md section 3). A request without an `Authorization` header is anonymous; a header that is there
 * is always checked, and a bad one is never treated as absent. A token is spent by the last check, whatever becomes of
 * its request afterwards.
 */
import { IdentityError, type Identity, type IdentityResolver, type ResolveOptions } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { XrpcError } from '@tributary/xrpc'
import { TokenRefusedError, type TokenFault } from './refusal.ts'
import { readServiceToken, type ServiceToken } from './service-token.ts'
import { isSignedWith } from './signature.ts'
import type { SpentTokens } from './used-tokens.ts'

const nonceBytesMax = 256

export interface AuthenticatorOptions {
  readonly serviceDid: Did
  readonly maxTokenAgeSeconds: number
  readonly resolver: IdentityResolver
  /** Time to resolve an identity in all, waiting for its turn included. */
  readonly resolutionMs: number
  readonly usedTokens: SpentTokens
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/**
 * The verified caller of `method`, or undefined for an anonymous request. The documents that are read for it count for
 * `network`, where the request came from, and so does its token: anybody can name any issuer. Throws TokenRefusedError, or XrpcError 503 when
 * the store of used tokens is full.
 */
export type Authenticator = (
  authorization: string | undefined,
  method: string,
  network: string,
) => Promise<Did | undefined>

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { serviceDid, maxTokenAgeSeconds, usedTokens, now } = options
  return async (authorization, method, network) => {
    if (authorization === undefined) return undefined
    const token = readServiceToken(authorization, {
      serviceDid,
      method,
      maxAgeSeconds: maxTokenAgeSeconds,
      nowSeconds: Math.floor(now() / 1000),
    })
    await checkSignature(token, network, options)
    if (token.method !== method) throw new TokenRefusedError('BadJwtLexiconMethod')
    await spend(usedTokens, token, network)
    return token.issuer
  }
}

/**
 * A key that does not fit may be an old one from the cache, so the document is loaded once more. If it cannot be, what is
 * known decides: how often one claim can make us load a document is limited.
 */
async function checkSignature(
  token: ServiceToken,
  network: string,
  options: AuthenticatorOptions,
): Promise<void> {
  const startedAt = options.now()
  const known = await resolve(token.issuer, { onBehalfOf: network }, 'DidResolutionFailed', options)
  if (known.signingKey && isSignedWith(known.signingKey, token)) return
  if (known.fetchedAt >= startedAt) throw new TokenRefusedError('BadJwtSignature')
  const again = { refreshAfter: startedAt, onBehalfOf: network }
  const fresh = await resolve(token.issuer, again, 'BadJwtSignature', options)
  if (!fresh.signingKey || !isSignedWith(fresh.signingKey, token))
    throw new TokenRefusedError('BadJwtSignature')
}

/** The identity of an issuer. When it cannot be read in time, the token is refused as `fault`. */
async function resolve(
  did: Did,
  how: ResolveOptions,
  fault: TokenFault,
  { resolver, resolutionMs }: AuthenticatorOptions,
): Promise<Identity> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new TokenRefusedError(fault)), resolutionMs)
  })
  try {
    return await Promise.race([resolver.resolve(did, how), timeout])
  } catch (error) {
    if (error instanceof IdentityError) throw new TokenRefusedError(fault)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

async function spend(
  usedTokens: SpentTokens,
  { issuer, nonce, expiresAt }: ServiceToken,
  network: string,
): Promise<void> {
  if (typeof nonce !== 'string' || nonce === '' || Buffer.byteLength(nonce) > nonceBytesMax) {
    throw new TokenRefusedError('BadJwt')
  }
  switch (await usedTokens.spend({ issuer, nonce, expiresAt, network })) {
    case 'spent':
      return
    case 'expired':
      throw new TokenRefusedError('JwtExpired')
    case 'used':
      throw new TokenRefusedError('NonceNotUnique')
    case 'full':
      throw new XrpcError(503, 'InternalError', 'too many tokens are in use; try again in a few minutes')
  }
}
