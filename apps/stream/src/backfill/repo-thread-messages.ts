/** What the main thread and the thread that verifies repositories tell each other: each question has one answer. */
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { Digest, RefusalReason, SigningKey } from '@tributary/repo-verify'

export type RepoRequest =
  /** The next bytes of the CAR of a repository. They travel with the request, and have no answer. */
  | { to: 'add'; id: number; bytes: ArrayBuffer }
  | { to: 'verify'; id: number; check: RepoCheck }
  /** Asks for wanted records of a repository that was verified, from a place on. */
  | { to: 'give'; id: number; from: number }
  /** The repository is not needed any more. It has no answer. */
  | { to: 'forget'; id: number }

export interface RepoCheck {
  did: Did
  key: SigningKey
  bytesMax: number
  /** Whose records are wanted. */
  collections: ReadonlySet<string>
}

export type RepoReply =
  | { is: 'verified'; id: number; rev: Tid; data: Digest; records: number }
  | { is: 'refused'; id: number; reason: RefusalReason; detail: string }
  | { is: 'given'; id: number; given: GivenRecords }

/** Some records, in the order of the tree. */
export interface GivenRecords {
  /** One record after the other. */
  bytes: ArrayBuffer
  /** Where each ends in the bytes. */
  records: { collection: Nsid; rkey: RecordKey; cid: Digest; end: number }[]
}
