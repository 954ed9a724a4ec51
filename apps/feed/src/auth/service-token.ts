/** The checks of a service token that need nothing but the token and the clock (feed.md 3.1, checks 1 to 9). */
import { isDid, type Did } from '@tributary/protocol'
import { TokenRefusedError } from './refusal.ts'

/** A token that says the right things. Nothing is proven before its signature is checked. */
export interface ServiceToken {
  readonly issuer: Did
  readonly alg: string
  /** End of validity, in whole seconds since 1970; that second is still valid to its end. */
  readonly expiresAt: number
  readonly method: string | undefined
  readonly nonce: unknown
  readonly signedBytes: Uint8Array
  readonly signature: Uint8Array
}

export interface TokenExpectations {
  readonly serviceDid: Did
  readonly method: string
  /** How far `exp` and `iat` may lie from now, in either direction. */
  readonly maxAgeSeconds: number
  readonly nowSeconds: number
}

type Claims = Readonly<Record<string, unknown>>

/** Token types of OAuth and sessions, which are signed with the same keys but are not meant for services. */
const foreignTypes = new Set(['at+jwt', 'refresh+jwt', 'dpop+jwt'])
const base64urlPattern = /^[A-Za-z0-9_-]+$/
const scheme = 'Bearer '
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Reads the token of an `Authorization` header. Throws TokenRefusedError with the first check that fails. */
export function readServiceToken(authorization: string, expected: TokenExpectations): ServiceToken {
  if (!authorization.startsWith(scheme)) throw new TokenRefusedError('MissingBearer')
  const [headerPart, payloadPart, signaturePart, ...more] = authorization
    .slice(scheme.length)
    .trim()
    .split('.')
  if (!headerPart || !payloadPart || !signaturePart || more.length > 0) throw new TokenRefusedError('BadJwt')
  const alg = readAlg(decodeJson(headerPart))
  const token = readClaims(decodeJson(payloadPart), expected)
  return {
    ...token,
    alg,
    signedBytes: Buffer.from(`${headerPart}.${payloadPart}`),
    // An empty signature fits no key.
    signature: base64urlPattern.test(signaturePart)
      ? Buffer.from(signaturePart, 'base64url')
      : new Uint8Array(),
  }
}

function readAlg(header: Claims): string {
  const { alg, typ } = header
  if (typeof alg !== 'string' || alg === 'none') throw new TokenRefusedError('BadJwt')
  if (typ !== undefined && (typeof typ !== 'string' || foreignTypes.has(typ)))
    throw new TokenRefusedError('BadJwt')
  return alg
}

function readClaims(
  claims: Claims,
  { serviceDid, method, maxAgeSeconds, nowSeconds }: TokenExpectations,
): Pick<ServiceToken, 'issuer' | 'expiresAt' | 'method' | 'nonce'> {
  const { iss, aud, exp, iat, nbf, lxm, jti } = claims
  if (!isDid(iss) || !isDid(aud) || !isTime(exp)) throw new TokenRefusedError('BadJwt')
  if (!isAbsentOr(isTime, iat) || !isAbsentOr(isTime, nbf)) throw new TokenRefusedError('BadJwt')
  if (lxm !== undefined && typeof lxm !== 'string') throw new TokenRefusedError('BadJwt')

  if (aud !== serviceDid) throw new TokenRefusedError('InvalidAudience')
  if (nbf !== undefined && nbf > nowSeconds) throw new TokenRefusedError('JwtNotYetValid')
  if (nowSeconds > exp) throw new TokenRefusedError('JwtExpired')
  if (Math.abs(exp - nowSeconds) > maxAgeSeconds) throw new TokenRefusedError('JwtTooOld')
  if (iat !== undefined && Math.abs(iat - nowSeconds) > maxAgeSeconds)
    throw new TokenRefusedError('JwtTooOld')
  if (lxm !== undefined && lxm !== method) throw new TokenRefusedError('BadJwtLexiconMethod')
  return { issuer: iss, expiresAt: exp, method: lxm, nonce: jti }
}

function decodeJson(part: string): Claims {
  if (!base64urlPattern.test(part)) throw new TokenRefusedError('BadJwt')
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(Buffer.from(part, 'base64url')))
  } catch {
    throw new TokenRefusedError('BadJwt')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new TokenRefusedError('BadJwt')
  return value as Claims // an object, and its fields are unknown
}

function isTime(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) > 0
}

function isAbsentOr<T>(is: (value: unknown) => value is T, value: unknown): value is T | undefined {
  return value === undefined || is(value)
}
