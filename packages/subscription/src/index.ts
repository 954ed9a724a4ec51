/**
 * One WebSocket client of `com.atproto.sync.subscribeRepos`, for whoever reads a PDS or a relay. It bounds what the
 * other side can cost in time, memory and turns of the event loop. Deliberately elsewhere: when to connect again, and
 * what a message means.
 */
export { backoffMs, type BackoffBounds } from './backoff.ts'
export {
  Subscription,
  type Ending,
  type EndingCause,
  type EventMessage,
  type Notice,
  type SubscriptionOptions,
  type SubscriptionTimes,
} from './subscription.ts'
