/** Which `#identity` events pass: they carry nothing but a hint, so few of them are enough. */
import { createHash } from 'node:crypto'
import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { RelayRefusal } from '../refusals.ts'
import type { LogMessage } from './plain-events.ts'

/** Events of one account from one source that pass in each minute: a relay may name any account, and uses up its own. */
const eventsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }
/** The same event does not pass twice within this time. */
const repeatMs = 10_000
/** Accounts whose last event is remembered, to know it again. */
const remembered = 1000
/** Events of relays that are remembered: at least this many, or those of the last hour if these are fewer. */
const forwardedMax = { count: 100_000, ms: 3_600_000 }

export class IdentityGate {
  readonly #rate = new KeyedRate<`${Did} ${string}`>(eventsMax)
  readonly #recent = new RecentMap<Did, { digest: string; atMs: number }>(remembered)
  readonly #forwarded = new PassedEvents()

  /**
   * Why an `#identity` does not pass. Undefined when it does, which counts.
   * @param source where it comes from. Relays that read each other would send it round again and again.
   */
  refusalOf(
    did: Did,
    plain: LogMessage,
    receivedAtMs: number,
    { host, isShared }: { host: string; isShared: boolean },
  ): { reason: RelayRefusal; detail: string } | undefined {
    const digest = digestOf(plain)
    const isRepeat = this.#isRepeat(did, digest.toString('base64'), receivedAtMs)
    if (isRepeat || (isShared && this.#forwarded.has(digest)))
      return { reason: 'repeated', detail: 'the same #identity was sent before' }
    if (this.#rate.take(`${did} ${host}`, receivedAtMs) > 0)
      return { reason: 'too-many-identity-events', detail: 'more of them than anybody needs' }
    if (isShared) this.#forwarded.add(digest, receivedAtMs)
    return undefined
  }

  /** Whether the same event came a moment ago. */
  #isRepeat(did: Did, digest: string, atMs: number): boolean {
    const before = this.#recent.get(did)
    this.#recent.set(did, { digest, atMs })
    return before !== undefined && atMs - before.atMs < repeatMs && before.digest === digest
  }
}

/** Events that have passed, in two generations, of which the older one is forgotten when the younger one is full or old. */
class PassedEvents {
  #young = new Set<number>()
  #old = new Set<number>()
  #youngSinceMs = -Infinity

  has(digest: Buffer): boolean {
    const key = keyOf(digest)
    return this.#young.has(key) || this.#old.has(key)
  }

  add(digest: Buffer, nowMs: number): void {
    if (this.#young.size >= forwardedMax.count || nowMs - this.#youngSinceMs >= forwardedMax.ms) {
      this.#old = this.#young
      this.#young = new Set()
      this.#youngSinceMs = nowMs
    }
    this.#young.add(keyOf(digest))
  }
}

/** A hash of an event without its seq, because each relay gives it another one. Honest events differ in their `time`. */
function digestOf({ bytes, seqStart, seqEnd }: LogMessage): Buffer {
  return createHash('sha256').update(bytes.subarray(0, seqStart)).update(bytes.subarray(seqEnd)).digest()
}

/** The first 48 bits, which are enough to tell some 100,000 events apart and take little memory. */
function keyOf(digest: Buffer): number {
  return digest.readUIntBE(0, 6)
}
