import type { Refusal, RefusalReason, SigningKey } from '@tributary/repo-verify'
import type { Did, Tid } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'

/** A batch of events on its way to a verifying thread. `buffer` travels with it and comes back. */
export interface VerifyRequest {
  buffer: ArrayBuffer
  /** Where each frame ends in the buffer. The first starts at 0. */
  ends: number[]
  dids: Did[]
  /** Keys that the thread has not seen, to be taken before the frames. */
  keys: [Did, SigningKey][]
  /** For each frame, whether its source is held to Sync 1.1. */
  strict: boolean[]
}

/** What the main thread needs to know of a verified commit or sync. */
export interface Verified {
  ok: true
  kind: 'commit' | 'sync'
  /** The account whose key signed it. */
  did: Did
  rev: Tid
  since: Tid | null | undefined
  commit: Digest
  data: Digest
  prevData: Digest | undefined
  /** Collections of the records that a commit creates or updates, each once, as one text with spaces between. */
  collections: string
  /** What strict mode would have refused. Undefined when that is nothing. */
  waived: readonly RefusalReason[] | undefined
}

export type Verdict = Verified | Refusal

export interface VerifyReply {
  buffer: ArrayBuffer
  verdicts: Verdict[]
}
