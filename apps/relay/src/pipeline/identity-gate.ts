/** Which `#identity` events pass: they carry nothing but a hint, and anybody may send one for any account. */
import { createHash } from 'node:crypto'
import { RecentMap } from '@tributary/identity'
import type { Did } from '@tributary/protocol'
import type { RelayRefusal } from '../refusals.ts'
import type { LogMessage } from './plain-events.ts'
import { RateWindow } from './rate-window.ts'

/** Those of one account that pass in each minute. */
const eventsMax = { count: 10, windowMs: 60_000 }
/** Within this the same one does not pass twice. */
const repeatMs = 10_000
const remembered = 1000

export class IdentityGate {
  readonly #events = new RateWindow(eventsMax)
  /** Those of hosts that do not speak for the account, which must not use up what its own host may send. */
  readonly #foreign = new RateWindow(eventsMax)
  readonly #recent = new RecentMap<Did, { digest: string; atMs: number }>(remembered)

  /** Why an `#identity` does not pass. Undefined when it does, which counts. @param isOwn of the account's own host. */
  refusalOf(
    did: Did,
    plain: LogMessage,
    receivedAtMs: number,
    isOwn: boolean,
  ): { reason: RelayRefusal; detail: string } | undefined {
    const rate = isOwn ? this.#events : this.#foreign
    if (this.#isRepeat(did, plain, receivedAtMs))
      return { reason: 'repeated', detail: 'the same #identity was sent a moment ago' }
    if (!rate.take(did, receivedAtMs))
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
