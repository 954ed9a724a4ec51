/** What the main thread and the thread that verifies repositories tell each other. */
import type { Did, Nsid, RecordKey, Tid } from '@tributary/protocol'
import type { Digest, RefusalReason, SigningKey } from '@tributary/repo-verify'

export interface RepoRequest {
  id: number
  /** It travels with the request, and comes back with what lies in it. */
  car: ArrayBuffer
  did: Did
  key: SigningKey
  bytesMax: number
  /** Whose records are wanted. */
  collections: ReadonlySet<string>
}

export type RepoReply =
  | {
      id: number
      ok: true
      rev: Tid
      data: Digest
      car: ArrayBuffer
      /** In the order of the tree, and where each lies in the CAR. */
      records: { collection: Nsid; rkey: RecordKey; cid: Digest; start: number; length: number }[]
    }
  | { id: number; ok: false; reason: RefusalReason; detail: string }
