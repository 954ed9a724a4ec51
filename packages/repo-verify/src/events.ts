/** What frames of `com.atproto.sync.subscribeRepos` say, once read and checked. */
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { Digest } from './digest.ts'
import type { RefusalReason } from './refusal.ts'

interface Sequenced {
  ok: true
  /** The sequence number that the sender gave. */
  upstreamSeq: number
  /** Where the CBOR of the sequence number lies in the frame, so that it can be replaced and all else kept as it is. */
  seqStart: number
  seqEnd: number
  did: Did
  time: string
}

export interface VerifiedCommit extends Sequenced {
  kind: 'commit'
  rev: Tid
  since: Tid | null
  /** CID of the signed commit. */
  commit: Digest
  /** Root of the tree of records after this commit. */
  data: Digest
  /** Root before it, proven by the inversion. Undefined in an account's first commit, and from hosts before Sync 1.1. */
  prevData: Digest | undefined
  ops: RepoOp[]
  /** What strict mode would have refused. Always empty in strict mode. */
  waived: readonly RefusalReason[]
}

export interface RepoOp {
  action: 'create' | 'update' | 'delete'
  collection: Nsid
  rkey: RecordKey
  /** CID of the record. Undefined for a delete. */
  cid: Digest | undefined
  /** CID of the record before. Undefined for a create. */
  prev: Digest | undefined
  /** DAG-CBOR of the record: a view of the frame. Undefined for a delete, and where lenient mode waived `missing-block`. */
  record: Uint8Array | undefined
}

export interface VerifiedSync extends Sequenced {
  kind: 'sync'
  rev: Tid
  commit: Digest
  data: Digest
}

export interface IdentityEvent extends Sequenced {
  kind: 'identity'
  /** As sent, unchecked. */
  handle: string | undefined
}

export interface AccountEvent extends Sequenced {
  kind: 'account'
  active: boolean
  /** As sent, unchecked. */
  status: string | undefined
}

export interface InfoEvent {
  ok: true
  kind: 'info'
  name: string
  message: string | undefined
}

/** An error frame, after which the sender closes. */
export interface ErrorEvent {
  ok: true
  kind: 'error'
  error: string
  message: string | undefined
}

/** A kind of message that this version of the protocol does not have. Its body is valid DAG-CBOR. */
export interface UnknownEvent {
  ok: true
  kind: 'unknown'
  op: number
  t: string | undefined
}

export type VerifiedEvent =
  | VerifiedCommit
  | VerifiedSync
  | IdentityEvent
  | AccountEvent
  | InfoEvent
  | ErrorEvent
  | UnknownEvent
