/** What main thread and verifying threads tell each other. */
import type { Did, Tid } from '@tributary/protocol'
import type { Digest, Refusal, RefusalReason, SigningKey } from '@tributary/repo-verify'

/** A batch of messages on its way to a verifying thread. */
export interface VerifyRequest {
  /** The messages, one after the other, and room for verdicts. It travels with the request and comes back. */
  buffer: ArrayBuffer
  /** Where each message ends in the buffer. The first starts at 0. */
  ends: number[]
  /** The number of each message's signing key. */
  keys: number[]
  /** Keys that the thread has not seen, with their numbers. */
  newKeys: [number, SigningKey][]
  /** For each message, whether its source is held to Sync 1.1. */
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

/** What was thrown while an event was verified: a defect of ours. */
export interface Defect {
  ok: false
  reason: 'internal-error'
  detail: string
  error: Error
}

export type Verdict = Verified | Refusal | Defect

export interface VerifyReply {
  /** That of the request. The verdicts follow the last message, as `verdict-text.ts` writes them. */
  buffer: ArrayBuffer
  /** Where each verdict ends. Where nothing was written the verdict is in `others`, by its place. */
  verdictEnds: number[]
  others: Map<number, Verdict>
  /** Milliseconds of work. */
  tookMs: number
}
