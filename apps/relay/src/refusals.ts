import type { Did } from '@tributary/protocol'
import { refusalReasons } from '@tributary/repo-verify'
import type { Source } from './sources/source.ts'

/** Why the relay refused an event: what its bytes say, or what it knows of the account and its host. A metric label. */
export const relayRefusals = [
  ...refusalReasons,
  /** The source's numbering went back on one connection. */
  'seq-not-increasing',
  /** An event of a kind that this version does not know, or that was removed. */
  'unknown-event',
  /** The account's DID document names another host. */
  'wrong-host',
  /** The account's identity could not be had in time. */
  'identity-unavailable',
  /** The directory says there is no such account. */
  'identity-not-found',
  'account-inactive',
  /** A revision that is not newer than what passed before: a repeat, or stale. */
  'rev-not-increasing',
  /** A `#sync` with the revision that is known and other content. */
  'forked',
  /** The account is active, but its host has more accounts than it has slots. */
  'over-quota',
  /** An operator of this relay took the account down, or suspended it. */
  'account-excluded',
  /** Another relay forwarded it, and the account's host is read directly. */
  'direct-source',
  /** Another relay forwarded it, and the account's host is banned here. */
  'host-banned',
  /** Another relay says of an account what the account's host does not say. */
  'unconfirmed-status',
  /** The account's commits did not continue what was stored too often within a day. */
  'too-many-breaks',
  'too-many-identity-events',
  /** A defect of this relay: what was thrown while the event was handled costs that event. */
  'internal-error',
  /**
   * The same `#identity` again within seconds, or an event that comes again after a restart, when newer events of its
   * account are in the log.
   */
  'repeated',
] as const

export type RelayRefusal = (typeof relayRefusals)[number]

/** What was refused, as far as it could be told. */
export interface RefusedEvent {
  did?: Did | undefined
  upstreamSeq?: number
  type?: string
}

/** Told of everything that is not let through. `detail` is in our words and bounded; it never holds content. */
export type OnRefused = (source: Source, reason: RelayRefusal, detail: string, event?: RefusedEvent) => void
