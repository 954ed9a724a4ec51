/** Which `#identity` events pass: they carry nothing but a hint, so few of them are enough. */
import { createHash } from 'node:crypto'
import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import { KeyedRate } from '@tributary/rates'
import type { RelayRefusal } from '../refusals.ts'
import type { LogMessage } from './plain-events.ts'

/** Events of one account that pass in each minute. */
const eventsMax = { max: 10, windowMs: 60_000, keysMax: 10_000 }
/** The same event does not pass twice within this time. */
const repeatMs = 10_000
/** Accounts whose last event is remembered, to know it again. */
const remembered = 1000

export class IdentityGate {
  readonly #rate = new KeyedRate<Did>(eventsMax)
  readonly #recent = new RecentMap<Did, { digest: string; atMs: number }>(remembered)

  /** Why an `#identity` does not pass. Undefined when it does, which counts. */
  refusalOf(
    did: Did,
    plain: LogMessage,
    receivedAtMs: number,
  ): { reason: RelayRefusal; detail: string } | undefined {
    if (this.#isRepeat(did, plain, receivedAtMs))
      return { reason: 'repeated', detail: 'the same #identity was sent a moment ago' }
    if (this.#rate.take(did, receivedAtMs) > 0)
      return { reason: 'too-many-identity-events', detail: 'more of them than anybody needs' }
    return undefined
  }

  /** Whether the same event, but for its seq, came a moment ago. */
  #isRepeat(did: Did, { bytes, seqStart, seqEnd }: LogMessage, atMs: number): boolean {
    const before = this.#recent.get(did)
    const content = createHash('sha256').update(bytes.subarray(0, seqStart)).update(bytes.subarray(seqEnd))
    const digest = content.digest('base64')
    this.#recent.set(did, { digest, atMs })
    return before !== undefined && atMs - before.atMs < repeatMs && before.digest === digest
  }
}
