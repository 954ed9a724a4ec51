/**
 * How often something may happen: a bucket for a pace, also for each of many keys, a window for any stretch of time, a count for each of many keys,
 * and turns for what may happen in one turn of the event loop, and for whom. The callers give the clock. A clock that is set back lets
 * nothing extra pass.
 */
export { FairTurns } from './fair-turns.ts'
export { KeyedBucket } from './keyed-bucket.ts'
export { KeyedRate } from './keyed-rate.ts'
export { SlidingWindow } from './sliding-window.ts'
export { TokenBucket } from './token-bucket.ts'
export { Turns } from './turns.ts'
