import { XrpcError } from '@tributary/xrpc'

/** Why a token was refused: the detail that `WWW-Authenticate` carries. Also a metric label, so the set is closed. */
export type TokenFault =
  | 'MissingBearer'
  | 'BadJwt'
  | 'InvalidAudience'
  | 'JwtNotYetValid'
  | 'JwtExpired'
  | 'JwtTooOld'
  | 'BadJwtLexiconMethod'
  | 'DidResolutionFailed'
  | 'BadJwtSignature'
  | 'NonceNotUnique'

const advice: Readonly<Record<TokenFault, string>> = {
  MissingBearer: 'send the token as "Authorization: Bearer <token>", or no such header at all',
  BadJwt:
    'the token is not a service token of the AT Protocol; ask com.atproto.server.getServiceAuth for one',
  InvalidAudience: 'the token is for another service; ask for one whose aud is the DID of this service',
  JwtNotYetValid: 'the token is not valid yet; check the clock of its issuer',
  JwtExpired: 'the token has expired; ask for a new one',
  JwtTooOld: 'the token lives too long; ask for one that expires sooner',
  BadJwtLexiconMethod: 'the token is for another method; ask for one whose lxm is the method called',
  DidResolutionFailed: 'the identity of the issuer could not be loaded; try again later with a new token',
  BadJwtSignature: 'the token is not signed with the key of its issuer',
  NonceNotUnique: 'the token was used before; every request needs a new one',
}

/** A refused token: HTTP 401 with the detail in a header that scripts of other origins may read. */
export class TokenRefusedError extends XrpcError {
  readonly fault: TokenFault
  constructor(fault: TokenFault) {
    super(401, 'AuthenticationRequired', advice[fault], {
      'www-authenticate': `Bearer error="${fault}"`,
      'access-control-expose-headers': 'WWW-Authenticate',
    })
    this.fault = fault
  }
}
