/**
 * The messages of `com.atproto.sync.subscribeRepos`, once read. A message is what all later steps take: who may speak,
 * verification, passing on, other framings, rows of the archive. None of them reads the bytes again in another way.
 */
import type { Did, Tid } from '@tributary/protocol'
import type { Block } from './car.ts'

/** The bytes of a message, and where its body lies in them. */
export interface MessageBytes {
  ok: true
  /** The whole message. The holder may put a copy here: the positions do not change. */
  bytes: Buffer
  /** Where the body begins. It ends where the bytes do. */
  bodyStart: number
}

/** A message that has a place in the order of its sender. */
interface Sequenced extends MessageBytes {
  /** The sequence number that the sender gave. */
  upstreamSeq: number
  /** Where the CBOR of the sequence number lies, so that it can be replaced and all else kept as it is. */
  seqStart: number
  seqEnd: number
  /** The account that the message is of: `repo` of a commit, `did` of the other kinds. */
  did: Did
  /** As sent, unchecked, at most 64 bytes. */
  time: string
}

export interface CommitMessage extends Sequenced {
  kind: 'commit'
  /** Where the revision stands. */
  revAt: number
  /** Where the revision before it stands, as the message says; 0 for null. */
  sinceAt: number
  /** Where the digest of the signed commit stands, as the message says. */
  commitAt: number
  /**
   * Where the digest of the root of the tree before the commit stands, as the message says; 0 for none. Hosts before
   * Sync 1.1 do not send it.
   */
  prevDataAt: number
  blocks: Block
  ops: RawOp[]
  /** `tooBig` or `rebase` is set. */
  isFlagged: boolean
}

/** An operation as sent: only the types of its fields are checked. */
export interface RawOp {
  action: string
  path: Block
  /** Where the digests of the CIDs stand in the message; 0 for none. */
  cidAt: number
  prevAt: number
}

export interface SyncMessage extends Sequenced {
  kind: 'sync'
  rev: Tid
  blocks: Block
}

export interface IdentityMessage extends Sequenced {
  kind: 'identity'
  /** As sent, unchecked. */
  handle: string | undefined
}

export interface AccountMessage extends Sequenced {
  kind: 'account'
  active: boolean
  /** As sent, unchecked. */
  status: string | undefined
}

export interface InfoMessage extends MessageBytes {
  kind: 'info'
  name: string
  message: string | undefined
}

/** An error, after which the sender closes. */
export interface ErrorMessage extends MessageBytes {
  kind: 'error'
  error: string
  message: string | undefined
}

/** A kind of message that this version of the protocol does not have. */
export interface UnknownMessage extends MessageBytes {
  kind: 'unknown'
  op: number
  t: string | undefined
  /** Undefined when it has none. */
  upstreamSeq: number | undefined
}

/** A message that holds a signed commit. */
export type SignedMessage = CommitMessage | SyncMessage

/** A message that says something of an account. */
export type AccountBound = SignedMessage | IdentityMessage | AccountMessage

export type Message = AccountBound | InfoMessage | ErrorMessage | UnknownMessage
