/** What main thread and verifying threads tell each other. */
import type { Refusal, SigningKey } from '@tributary/repo-verify'
import type { Verdict } from './verdict.ts'

/** What a verifying thread does. V is what its program keeps of a good event. */
export interface VerifyWork<V> {
  /** Verifies a message. What it throws costs that message. @param isStrict whether its source is held to Sync 1.1. */
  verify: (bytes: Buffer, key: SigningKey | undefined, isStrict: boolean) => V | Refusal
  /**
   * A verdict on a good event as text of one byte a character, which takes a quarter of the time to hand over that an
   * object takes. Undefined for a verdict that goes as it is, which then holds no views of `bytes`.
   */
  write: (verdict: V, bytes: Buffer) => string | undefined
  /** Takes what the pool was given with `setPolicy`, before the batches that were handed over after it. */
  onPolicy?: (policy: unknown) => void
}

/** A batch of messages on its way to a verifying thread. */
export interface VerifyRequest {
  /** The messages, one after the other, and room for verdicts. It travels with the request and comes back. */
  buffer: ArrayBuffer
  /** Where each message ends in the buffer. The first starts at 0. */
  ends: number[]
  /** The number of each message's signing key. 0: the account has none. */
  keys: number[]
  /** Keys that the thread has not seen, with their numbers. */
  newKeys: [number, SigningKey][]
  /** For each message, whether its source is held to Sync 1.1. */
  strict: boolean[]
}

/** What is sent to a verifying thread. See `endThread` for `end`. */
export type ToThread = VerifyRequest | { policy: unknown } | 'end'

export interface VerifyReply<V> {
  /** That of the request. The verdicts follow the last message, as `VerifyWork.write` writes them. */
  buffer: ArrayBuffer
  /** Where each verdict ends. Where nothing was written the verdict, or its text, is in `others`, by its place. */
  verdictEnds: number[]
  others: Map<number, Verdict<V> | string>
  /** Milliseconds of work. */
  tookMs: number
}
