/**
 * How often something may happen: a bucket for a pace, a window for any stretch of time, and a count for each of many
 * keys. The callers give the clock. A clock that is set back lets nothing extra pass.
 */
export { KeyedRate } from './keyed-rate.ts'
export { SlidingWindow } from './sliding-window.ts'
export { TokenBucket } from './token-bucket.ts'
