/** What the messages of `com.atproto.sync.subscribeRepos` say, once verified. */
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { Digest } from './digest.ts'
import type { AccountMessage, ErrorMessage, IdentityMessage, InfoMessage, UnknownMessage } from './message.ts'
import type { RefusalReason } from './refusal.ts'

export interface VerifiedCommit {
  ok: true
  kind: 'commit'
  upstreamSeq: number
  /** The account whose key signed the commit. */
  did: Did
  time: string
  rev: Tid
  since: Tid | null
  /** CID of the signed commit. */
  commit: Digest
  /** Root of the tree of records after this commit. */
  data: Digest
  /** Root before it, proven by the inversion. Undefined in an account's first commit, and from hosts before Sync 1.1. */
  prevData: Digest | undefined
  ops: RepoOp[]
  /** Why operations are missing from `ops` where each stands alone. Empty where all must be good. */
  dropped: readonly OpFault[]
  /** What strict mode would have refused. Always empty in strict mode. */
  waived: readonly RefusalReason[]
}

/** What is wrong with one operation. Also a metric label, so the set stays small and closed. */
export const opFaults = [
  /** The path is not `<nsid>/<rkey>`. */
  'invalid-path',
  /** The record is not in the CAR. */
  'missing-record',
  /** The record is too large, or no map of strict DAG-CBOR. */
  'unreadable-record',
] as const

export type OpFault = (typeof opFaults)[number]

export interface RepoOp {
  action: 'create' | 'update' | 'delete'
  collection: Nsid
  rkey: RecordKey
  /** CID of the record. Undefined for a delete. */
  cid: Digest | undefined
  /** CID of the record before. Undefined for a create. */
  prev: Digest | undefined
  /** DAG-CBOR of the record: a view of the message. Undefined for a delete, and where lenient mode waived `missing-block`. */
  record: Uint8Array | undefined
}

export interface VerifiedSync {
  ok: true
  kind: 'sync'
  upstreamSeq: number
  /** The account whose key signed the commit. */
  did: Did
  time: string
  rev: Tid
  commit: Digest
  data: Digest
}

export type VerifiedEvent =
  | VerifiedCommit
  | VerifiedSync
  | IdentityMessage
  | AccountMessage
  | InfoMessage
  | ErrorMessage
  | UnknownMessage
