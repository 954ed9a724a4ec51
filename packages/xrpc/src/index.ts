/**
 * HTTP and WebSocket upgrades under /xrpc/<nsid>, with the lexicons as the schema.
 *
 * Owns: parameters, input and output as their lexicon says; one shape of errors, `{ error, message }`, whatever goes
 * wrong and wherever; limits on heads, bodies, times and connections; who the client is behind proxies.
 * Must hold: nothing that a handler did not mean for the caller leaves the process, and output that does not fit its
 * lexicon is never sent. Elsewhere: the WebSocket itself (fanout), authentication, what methods do.
 */
export { AddressCount } from './address-count.ts'
export { CallerRate } from './caller-rate.ts'
export { CallerTurns, type WaitingLimits } from './caller-turns.ts'
export type { CorsOptions } from './cors.ts'
export { parseJson } from './input.ts'
export { loadLexicons } from './lexicons.ts'
export { networkOf, siteOf } from './network-of.ts'
export { bearerToken, requireOperatorToken } from './operator-token.ts'
export type { Params } from './params.ts'
export { XrpcError, type ErrorNames } from './xrpc-error.ts'
export {
  createXrpcServer,
  type ProcedureContext,
  type QueryContext,
  type RouteContext,
  type AcceptSubscription,
  type SubscriptionContext,
  type UpgradeContext,
  type XrpcServer,
  type XrpcServerOptions,
} from './xrpc-server.ts'
