/**
 * The events of `network.social.stream.subscribeEvents`, the wire of Jetstream v2 under our namespace.
 * `seq` and `time` of the outer object are the stream's own; those of the inner object are the relay's.
 */
import type { Did, Nsid, RecordKey } from './syntax.ts'

export const eventKinds = ['commit', 'identity', 'account', 'sync'] as const
export type EventKind = (typeof eventKinds)[number]

interface Envelope {
  seq: number
  did: Did
  /** UTC with six fractional digits and `Z`. */
  time: string
}

export interface CommitEvent extends Envelope {
  kind: 'commit'
  rev: string
  operation: 'create' | 'update' | 'delete'
  collection: Nsid
  rkey: RecordKey
  /** Absent on deletes. */
  cid?: string
  /** atproto JSON, absent on deletes. */
  record?: Record<string, unknown>
}

export interface IdentityEvent extends Envelope {
  kind: 'identity'
  identity: { did: Did; handle?: string; seq: number; time: string }
}

export interface AccountEvent extends Envelope {
  kind: 'account'
  account: { active: boolean; did: Did; seq: number; status?: string; time: string }
}

export interface SyncEvent extends Envelope {
  kind: 'sync'
  sync: { did: Did; rev: string; seq: number; time: string; blocks: { $bytes: string } }
}

/** An event of the stream as a consumer sees it: the payload of a message with its `$type` turned into `kind`. */
export type StreamEvent = CommitEvent | IdentityEvent | AccountEvent | SyncEvent

/** A notice of the stream itself. It has no seq and moves no cursor. */
export interface StreamInfo {
  kind: 'info'
  name: string
  message?: string
}
