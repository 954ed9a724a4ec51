/** What a source is doing, told from what is known of it; the only place that says so. */
import type { DesiredState } from '../policy/source-policy.ts'

/**
 * `connecting`: without a connection, for less than two minutes. `idle`: connected and silent for an hour, which is
 * normal. `throttled`: connected and not read for now, for the reason given. `unreachable`: without a connection for
 * two minutes or more; it is dialled on. `stuck`: it gets nowhere until something changes. `banned`, `disabled`: an
 * operator's decision.
 */
export type SourceState =
  | 'connecting'
  | 'connected'
  | 'idle'
  | 'throttled'
  | 'unreachable'
  | 'stuck'
  | 'banned'
  | 'disabled'

export interface Condition {
  state: SourceState
  /** Why, where that needs to be said. */
  reason?: string
}

/** What follows for those who read `com.atproto.sync.listHosts`. */
export const hostStatuses: Readonly<Record<SourceState, string>> = {
  connecting: 'active',
  connected: 'active',
  idle: 'idle',
  throttled: 'throttled',
  unreachable: 'offline',
  stuck: 'offline',
  banned: 'banned',
  disabled: 'banned',
}

/** The states of a source that has a connection. */
export function isConnected({ state }: { state: SourceState }): boolean {
  return state === 'connected' || state === 'idle' || state === 'throttled'
}

export interface SourceFacts {
  desired: DesiredState
  bannedDomain: string | undefined
  /** Why it gets nowhere. */
  stuckReason: string | undefined
  isOpen: boolean
  /** How long it has been without a connection. */
  awayMs: number
  /** Why it is not read, when that lasts. */
  pauseReason: string | undefined
  /** How long nothing came on an open connection. */
  quietMs: number
}

const unreachableAfterMs = 120_000
const idleAfterMs = 3_600_000

export function conditionOf(facts: SourceFacts): Condition {
  const { desired, bannedDomain, stuckReason, isOpen, awayMs, pauseReason, quietMs } = facts
  if (bannedDomain !== undefined) return { state: 'banned', reason: `domain ${bannedDomain}` }
  if (desired === 'banned') return { state: 'banned', reason: desired }
  if (desired !== 'enabled') return { state: 'disabled', reason: desired }
  if (stuckReason !== undefined) return { state: 'stuck', reason: stuckReason }
  if (!isOpen) return { state: awayMs < unreachableAfterMs ? 'connecting' : 'unreachable' }
  if (pauseReason !== undefined) return { state: 'throttled', reason: pauseReason }
  return { state: quietMs > idleAfterMs ? 'idle' : 'connected' }
}
