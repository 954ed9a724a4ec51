/**
 * Keeps the events of an account in order while some of them wait for the account's DID document, for an answer of its
 * host, or for a thread. Relay and stream share it.
 */
export { systemClock, wait, type Clock, type RepeatingClock } from './clock.ts'
export { IdentityReads, type IdentityOutcome, type IdentityRequest } from './identity-reads.ts'
export { Lanes, type LaneLimits, type LaneWork } from './lanes.ts'
export type { Lane, LaneEvent, LaneSource, Outcome, Wait } from './lane.ts'
