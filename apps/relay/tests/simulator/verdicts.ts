/** Verification in any order that is allowed: verdicts on one account come in its order, those on others at any time. */
import { orDefect } from '@tributary/verify-pool'
import type { Clock } from '../../src/clock.ts'
import { Verifier } from '../../src/verify/verifier.ts'
import type { RelayVerification } from '../../src/verify/verification.ts'
import type { RelayConditions } from './conditions.ts'

type OnVerdict = Parameters<RelayVerification['onVerdict']>[0]

export class SimulatedVerification implements RelayVerification {
  readonly #clock: Clock
  readonly #conditions: RelayConditions
  readonly #verifier: Verifier
  /** When the last verdict on an account comes. */
  readonly #lastMs = new Map<string, number>()
  #pendingBytes = 0
  #onVerdict: OnVerdict = () => {}

  constructor(clock: Clock, conditions: RelayConditions) {
    this.#clock = clock
    this.#conditions = conditions
    this.#verifier = new Verifier(() => clock.nowMs())
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  readonly busyMs = 0

  onVerdict(listener: OnVerdict): void {
    this.#onVerdict = listener
  }

  onThreadDied(): void {
    // There are no threads.
  }

  add(...[event, lane, key, isStrict]: Parameters<RelayVerification['add']>): void {
    const { did } = event.account
    const bytes = Buffer.from(event.message.bytes)
    event.message.bytes = Buffer.alloc(0)
    this.#pendingBytes += bytes.length
    const manner = this.#conditions.of('threads')
    const isForgotten = manner === 'forgetful' && this.#conditions.chance(0.3)
    const nowMs = this.#clock.nowMs()
    const tookMs = manner === 'slow' ? this.#conditions.some(20, 1500) : this.#conditions.some(0, 4)
    const atMs = Math.max(nowMs + tookMs, this.#lastMs.get(did) ?? 0)
    this.#lastMs.set(did, atMs)
    this.#clock.after(atMs - nowMs, () => {
      this.#pendingBytes -= bytes.length
      const verdict = isForgotten
        ? ({ ok: false, reason: 'missing-key', detail: 'the key is not known here any more' } as const)
        : orDefect(() => this.#verifier.verify(bytes, key, isStrict))
      this.#onVerdict(event, lane, verdict, bytes)
    })
  }

  async close(): Promise<void> {
    this.#onVerdict = () => {}
  }
}
