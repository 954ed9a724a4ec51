import type { RefusalReason } from '@tributary/repo-verify'

/** Why the relay refused an event: what its bytes say, or what it knows of the account and its host. A metric label. */
export type RelayRefusal =
  | RefusalReason
  /** The source's numbering went back on one connection. */
  | 'seq-not-increasing'
  /** An event of a kind that this version does not know, or that was removed. */
  | 'unknown-event'
  /** The account's DID document names another host. */
  | 'wrong-host'
  /** The account's identity could not be had in time. */
  | 'identity-unavailable'
  /** The directory says there is no such account. */
  | 'identity-not-found'
  | 'account-inactive'
  /** A revision that is not newer than what passed before: a repeat, or stale. */
  | 'rev-not-increasing'
  /** A `#sync` with the revision that is known and other content. */
  | 'forked'
