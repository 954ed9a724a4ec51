/**
 * Reads DID documents safely, keeps each for as long as it is good, and gives what it says in one shape.
 * Services dial hosts that the network names only through this package.
 */
export { type Identity, readDidDocument } from './did-document.ts'
export { createHandleResolver, type HandleResolver, type HandleResolverOptions } from './handle.ts'
export { isAllowedPrivate, normalizeHost, type NormalizedHost, type PrivateHosts } from './host.ts'
export { isPublicAddress } from './public-address.ts'
export { FetchError } from './fetch-error.ts'
export { IdentityError, type IdentityFault } from './identity-error.ts'
export {
  createResolver,
  type IdentityRead,
  type IdentityStore,
  type IdentityResolver,
  type PurgeOptions,
  type ResolveOptions,
  type ResolverOptions,
} from './resolver.ts'
export {
  safeFetch,
  type SafeFetchOptions,
  safeFetchPieces,
  type SafeHead,
  type SafeResponse,
  type SocketOptions,
  socketOptions,
} from './safe-fetch.ts'
export { type IdentityValues, StoredIdentities } from './stored-identities.ts'
export { RecentSet } from './recent-set.ts'
export { RecentMap } from './recent-map.ts'
