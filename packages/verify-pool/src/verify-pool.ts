/**
 * The main thread's side of verification: gathers events into batches, and hands a batch over when the thread is about to
 * run out of work. A DID always goes to the same thread, sources take turns in what waits for a thread, and verdicts on
 * the events of one source come back in the order in which these went in, which keeps the events of one DID in order.
 *
 * A single small event that finds its thread idle is verified here and now: that takes less than waking the thread and
 * being woken by it, which is most of what an event costs while there are few. A thread is begun when there is the first
 * batch for it: a program that never has that many events does without its memory. A thread that ends costs nobody an
 * event, except one that ends threads: see `bench.ts`.
 */
import type { SigningKey } from '@tributary/repo-verify'
import { Bench, type BenchWork } from './bench.ts'
import type { OnVerdict } from './verdict.ts'
import { batchEventsMax, type VerifiableEvent } from './verify-queue.ts'

/** Where commits and syncs are verified. Verdicts on the events of one DID come in the order in which those were added. */
export interface Verification<E, L, V> {
  /** Bytes of events that wait for a verdict. */
  readonly pendingBytes: number
  /** Milliseconds that it has taken since the start, all threads together. */
  readonly busyMs: number
  /** Called for each event. */
  onVerdict(listener: OnVerdict<E, L, V>): void
  /** Called when a thread has ended by itself. What it had in hand is verified again. */
  onThreadDied(listener: (error: Error) => void): void
  /**
   * Takes a copy of the event. Its verdict comes later.
   * @param key undefined when the account has none. @param isStrict whether its source is held to Sync 1.1.
   */
  add(event: E, lane: L, key: SigningKey | undefined, isStrict: boolean): void
  close(): Promise<void>
}

export interface VerifyPoolOptions<E, V> extends BenchWork<E, V> {
  /** Most threads. */
  workers: number
  /** A number by which the events of an account always go to the same thread. */
  placeOf: (event: E) => number
}

export class VerifyPool<E extends VerifiableEvent, L, V extends { ok: true }> implements Verification<
  E,
  L,
  V
> {
  readonly #placeOf: (event: E) => number
  readonly #benches: Bench<E, L, V>[]
  #isScheduled = false
  #onVerdict: OnVerdict<E, L, V> = () => {}
  #onThreadDied: (error: Error) => void = () => {}

  constructor({ workers, placeOf, ...work }: VerifyPoolOptions<E, V>) {
    this.#placeOf = placeOf
    this.#benches = Array.from(
      { length: workers },
      () =>
        new Bench<E, L, V>({
          ...work,
          onVerdict: (...verdict) => this.#onVerdict(...verdict),
          onThreadDied: (error) => this.#onThreadDied(error),
        }),
    )
  }

  get pendingBytes(): number {
    return this.#benches.reduce((sum, { pendingBytes }) => sum + pendingBytes, 0)
  }

  get busyMs(): number {
    return this.#benches.reduce((sum, { busyMs }) => sum + busyMs, 0)
  }

  onVerdict(listener: OnVerdict<E, L, V>): void {
    this.#onVerdict = listener
  }

  onThreadDied(listener: (error: Error) => void): void {
    this.#onThreadDied = listener
  }

  /** Tells all threads what they should know. Events that are added from now on are verified with it. */
  setPolicy(policy: unknown): void {
    for (const bench of this.#benches) bench.setPolicy(policy)
  }

  add(event: E, lane: L, key: SigningKey | undefined, isStrict: boolean): void {
    const bench = this.#benches[this.#placeOf(event) % this.#benches.length]
    if (!bench) return
    bench.add({ event, lane, key, isStrict })
    if (bench.size >= batchEventsMax) {
      bench.send()
    } else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        for (const each of this.#benches) each.look()
      })
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#benches.map((bench) => bench.close()))
  }
}
