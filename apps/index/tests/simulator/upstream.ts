/** The stream that the index reads: its events, and how it gives them to whoever reads on from a cursor. */
import { StreamError, type StreamBatch, type StreamClient } from '@tributary/client/node'
import type { StreamEvent } from '@tributary/protocol'
import type { ProcessClock } from '@tributary/testkit/simulation'
import { compacted } from '../compacted.ts'
import type { IndexConditions } from './conditions.ts'

type Replay = NonNullable<Parameters<StreamClient['replay']>[0]>

const retryMs = { min: 200, max: 5000 }

export class SimulatedStream {
  readonly events: StreamEvent[] = []
  /** The events that are left. */
  #left: StreamEvent[] = []
  readonly #conditions: IndexConditions
  readonly #batchMax: number
  readonly #waiting = new Set<() => void>()

  constructor(conditions: IndexConditions, batchMax: number) {
    this.#conditions = conditions
    this.#batchMax = batchMax
  }

  /** The events that compaction has left. */
  get left(): readonly StreamEvent[] {
    return this.#left
  }

  get tip(): number {
    return this.events.at(-1)?.seq ?? 0
  }

  emit(event: StreamEvent): void {
    this.events.push(event)
    this.#left.push(event)
    for (const wake of this.#waiting) wake()
  }

  /** Rows up to a seq leave its archive that others up to there supersede. */
  compact(seq: number): void {
    const end = this.#left.findIndex((event) => event.seq > seq)
    const [old, young] = end < 0 ? [this.#left, []] : [this.#left.slice(0, end), this.#left.slice(end)]
    this.#left = [...compacted(old), ...young]
  }

  /** Its connections see what it is like now. */
  changed(): void {
    for (const wake of this.#waiting) wake()
  }

  /** Reads it as the client does. */
  clientOf(clock: ProcessClock): StreamClient {
    return { replay: (options = {}) => this.#replay(options, clock) } as StreamClient // all of a client that the index uses
  }

  async *#replay(
    { cursor: start = 0, signal = new AbortController().signal, onStatus = () => {} }: Replay,
    clock: ProcessClock,
  ): AsyncGenerator<StreamBatch, void> {
    const conditions = this.#conditions
    let cursor = start
    let isOpen = false
    while (!signal.aborted) {
      const manner = conditions.of('stream')
      if (manner === 'refused') throw new StreamError('AuthenticationRequired', 'the key is not known')
      if (manner === 'down' || (isOpen && manner === 'jumpy' && conditions.chance(0.3))) {
        const reason = isOpen ? 'closed' : 'connect-failed'
        const delayMs = conditions.some(retryMs.min, retryMs.max)
        isOpen = false
        onStatus({ type: 'reconnecting', reason, detail: manner, delayMs, attempt: 1, cursor })
        await this.#pause(clock, delayMs, signal)
        continue
      }
      if (!isOpen) {
        await this.#pause(clock, conditions.some(1, 50), signal)
        if (cursor > this.tip) throw new StreamError('FutureCursor', `the stream ends at ${this.tip}`)
        isOpen = true
        onStatus({ type: 'live', cursor })
      }
      if (cursor >= this.tip) {
        await this.#change(signal)
        continue
      }
      await this.#pause(
        clock,
        manner === 'slow' ? conditions.some(100, 3000) : conditions.some(0, 10),
        signal,
      )
      const count = Math.ceil(conditions.some(0, this.#batchMax))
      // Only now, because the stream may have been compacted meanwhile.
      const from = this.#left.findIndex(({ seq }) => seq > cursor)
      const events = structuredClone(this.#left.slice(from, from + count))
      cursor = events.at(-1)?.seq ?? cursor
      if (!signal.aborted) yield { events, gaps: [], cursor, live: true }
    }
  }

  /** Until there is more, or it behaves in another way. */
  async #change(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
    this.#waiting.delete(resolve)
  }

  async #pause(clock: ProcessClock, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    clock.after(ms, resolve)
    signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
  }
}
