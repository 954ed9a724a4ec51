/** Verification in any order that is allowed: verdicts on one account come in its order, those on others at any time. */
import type { SigningKey } from '@tributary/repo-verify'
import { orDefect, type Verdict, type Verification, type VerifyWork } from '@tributary/verify-pool'
import type { Conditions } from './conditions.ts'
import type { ProcessClock } from './virtual-time.ts'

interface SimulatedEvent {
  readonly message: { bytes: Buffer; readonly did: string }
}

interface SimulatedVerificationOptions<E, V> {
  clock: Pick<ProcessClock, 'nowMs' | 'after'>
  /** Threads are `slow`, `forgetful` of keys, or as they should be. */
  conditions: Pick<Conditions<'threads'>, 'of' | 'chance' | 'some'>
  verify: (event: E, ...args: Parameters<VerifyWork<V>['verify']>) => ReturnType<VerifyWork<V>['verify']>
}

export class SimulatedVerification<E extends SimulatedEvent, L, V> implements Verification<E, L, V> {
  readonly #options: SimulatedVerificationOptions<E, V>
  /** What calls for the verdicts of each account, the oldest event first. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #pendingBytes = 0
  #onVerdict: (event: E, lane: L, verdict: Verdict<V>, bytes: Buffer) => void = () => {}

  constructor(options: SimulatedVerificationOptions<E, V>) {
    this.#options = options
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  readonly busyMs = 0

  onVerdict(listener: (event: E, lane: L, verdict: Verdict<V>, bytes: Buffer) => void): void {
    this.#onVerdict = listener
  }

  onThreadDied(): void {
    // There are no threads.
  }

  add(event: E, lane: L, key: SigningKey | undefined, isStrict: boolean): void {
    const { clock, conditions, verify } = this.#options
    const { did } = event.message
    const bytes = Buffer.from(event.message.bytes)
    event.message.bytes = Buffer.alloc(0)
    this.#pendingBytes += bytes.length
    const manner = conditions.of('threads')
    const isForgotten = manner === 'forgetful' && conditions.chance(0.3)
    const waiting = this.#waiting.get(did) ?? []
    this.#waiting.set(did, waiting)
    waiting.push(() => {
      this.#pendingBytes -= bytes.length
      const verdict = isForgotten
        ? ({ ok: false, reason: 'missing-key', detail: 'the key is not known here any more' } as const)
        : orDefect(() => verify(event, bytes, key, isStrict))
      this.#onVerdict(event, lane, verdict, bytes)
    })
    clock.after(manner === 'slow' ? conditions.some(20, 1500) : conditions.some(0, 4), () =>
      waiting.shift()?.(),
    )
  }

  async close(): Promise<void> {
    this.#onVerdict = () => {}
  }
}
