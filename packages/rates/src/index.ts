/**
 * Limits on how often something may happen: `TokenBucket` and `KeyedBucket` for a pace, `SlidingWindow` for any stretch
 * of time, `KeyedRate` for a count of each key, `SharedPlaces` for who has one of a number of places, `Turns` and
 * `FairTurns` for one turn of the event loop. Callers give the clock. A clock that is set back lets nothing extra pass, and
 * makes nobody wait longer than before.
 */
export { FairTurns, type FairTurnsOptions } from './fair-turns.ts'
export { KeyedBucket } from './keyed-bucket.ts'
export { KeyedRate } from './keyed-rate.ts'
export { SharedPlaces } from './shared-places.ts'
export { SlidingWindow } from './sliding-window.ts'
export { TokenBucket } from './token-bucket.ts'
export { Turns } from './turns.ts'
