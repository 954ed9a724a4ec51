/**
 * Runs the handlers of an indexer over a stream: many at a time, those of one record one after the other. The stored
 * cursor is the end of the contiguous prefix of events that are handled or parked, so a run that was killed at any point
 * goes on without a loss; events after the cursor come again. An event that is parked is durable before the cursor passes it,
 * and later events of its record are parked too, so that each record sees its events in order. Records that do not fit their
 * lexicon take no place among the parked events, because whoever writes records could fill them.
 */
import type { ClientEvent, StreamBatch, StreamGap } from '../batch.ts'
import { Checkpoint } from '../checkpoint.ts'
import type { ReplayOptions } from '../client.ts'
import { StreamError } from '../errors.ts'
import { numberOptions } from '../number-options.ts'
import { backoffMs, delay, defaultRetry, type RetryPolicy } from '../retry.ts'
import { plainEvent } from '../row-event.ts'
import { InvalidRecordError } from '../typed-record.ts'
import { type CompiledHandlers, compileHandlers, type Handlers } from './handlers.ts'
import type { ParkedEvent, ParkReason, RunnerStore } from './runner-store.ts'
import { Slots } from './slots.ts'
import { WorkOrder } from './work-order.ts'

export interface RunnerOptions<C> {
  client: { replay(options: ReplayOptions): AsyncGenerator<StreamBatch, void> }
  handlers: Handlers<C>
  /** Keeps the cursor and the parked events. One run at a time may use it. */
  store: RunnerStore
  /** Told of everything that did not go as it should. Called synchronously, and must not throw. */
  onReport: (report: RunnerReport) => void
  /** Whether the events of a record, or those of a whole account, are handled one after the other. Default: record. */
  order?: 'record' | 'account'
  /** Handlers that run at a time. Default 16. */
  concurrency?: number
  /** Events that were read and are not all handled. No more are read above it. Default 1000. */
  pendingMax?: number
  /** The run ends with `ParkingFullError` above it. Default 1000. */
  parkedMax?: number
  /** Attempts of a handler. Default 5, after 250 ms, 500 ms and so on. */
  retry?: Partial<Pick<RetryPolicy, 'attemptsMax' | 'firstMs' | 'maxMs'>>
  /** What else is asked of the stream. Kinds and collections are those that have handlers. */
  read?: Pick<ReplayOptions, 'archiveFirst' | 'dids' | 'onStatus' | 'seenAccounts' | 'throughSeq'>
  /** Ends the run: handlers that run are waited for, and what they did is saved. */
  signal?: AbortSignal
}

export type RunnerReport =
  /** A handler failed, and is called again after `delayMs`. */
  | { type: 'retrying'; event: ClientEvent; error: unknown; attempt: number; delayMs: number }
  | { type: 'parked'; parked: ParkedEvent }
  /** A parked event was handled at last. */
  | { type: 'unparked'; event: ClientEvent }
  /** A record does not fit the lexicon of its handler. It counts as dealt with, and is kept nowhere. */
  | { type: 'invalid-record'; event: ClientEvent; detail: string }
  /** Something that the stream should have brought cannot be read, and was left out. */
  | { type: 'gap'; gap: StreamGap }

/** So much is parked that something is wrong with more than single events. */
export class ParkingFullError extends Error {
  override readonly name = 'ParkingFullError'
}

const defaults = { concurrency: 16, pendingMax: 1000, parkedMax: 1000 }
const least = { concurrency: 1, pendingMax: 1, parkedMax: 0 }
const defaultWaits = { attemptsMax: 5, firstMs: defaultRetry.firstMs, maxMs: defaultRetry.maxMs }
const leastWaits = { attemptsMax: 1, firstMs: 0, maxMs: 0 }
/** What a handler threw is kept and reported with its event, as far as this. */
const detailCharsMax = 1000

/**
 * Reads the stream from the stored cursor on, and calls the handlers with its events. What is parked is tried again first.
 * Resolves when the signal aborts, or when everything up to `read.throughSeq` is handled or parked.
 * @throws what the store throws, what ends the stream (`StreamError`), or ParkingFullError.
 */
export async function runIndexer<C>(options: RunnerOptions<C>): Promise<void> {
  const { client, store, onReport, read, signal } = options
  const handlers = compileHandlers(options.handlers)
  const counts = numberOptions(least, defaults, options)
  const run = new Run(options, handlers, counts)
  const checkpoint = await Checkpoint.open(store, counts)
  const abort = (): void => run.stop()
  signal?.addEventListener('abort', abort)
  if (signal?.aborted === true) abort()
  try {
    await run.takeParked(checkpoint.cursor ?? 0)
    const from = { ...read, ...handlers.filter, cursor: checkpoint.cursor ?? 0, signal: run.signal }
    for await (const batch of client.replay(from)) {
      for (const gap of batch.gaps) onReport({ type: 'gap', gap })
      for (const event of plainEvents(batch, onReport)) {
        const done = await run.unlessStopped(checkpoint.track(event.seq))
        if (done) run.start(event, done)
      }
      const done = await run.unlessStopped(checkpoint.track(batch.cursor))
      done?.()
    }
  } catch (error) {
    run.stop({ error })
  } finally {
    signal?.removeEventListener('abort', abort)
  }
  try {
    await run.finished()
  } finally {
    // The caller may start again as soon as it is told of the end. What ended the run is told before what saving threw.
    const saved = checkpoint.flush()
    await (run.hasFailed ? saved.catch(() => undefined) : saved)
  }
}

/** Objects of their own: views would keep the blocks of all pending events in memory. */
function* plainEvents(
  { events }: StreamBatch,
  onReport: (report: RunnerReport) => void,
): Generator<ClientEvent> {
  for (const event of events) {
    try {
      yield plainEvent(event)
    } catch (error) {
      if (!(error instanceof StreamError)) throw error
      const { seq } = event
      const gap: StreamGap = { source: 'archive', afterSeq: seq - 1, throughSeq: seq, detail: error.message }
      onReport({ type: 'gap', gap })
    }
  }
}

/** What is under way, and what is parked. */
class Run {
  readonly #options: Omit<RunnerOptions<never>, 'handlers'>
  readonly #handlers: CompiledHandlers
  readonly #parkedMax: number
  readonly #retry: typeof defaultWaits
  readonly #order = new WorkOrder()
  readonly #slots: Slots
  readonly #stopping = new AbortController()
  /** Ends the wait of `unlessStopped`. */
  #onStop = (): void => undefined
  readonly #underWay = new Set<Promise<void>>()
  /** The records of parked events, by account and seq. Undefined for an event of the whole account. */
  readonly #parked = new Map<string, Map<number, string | undefined>>()
  #parkedCount = 0
  #failure: { error: unknown } | undefined

  constructor(
    options: Omit<RunnerOptions<never>, 'handlers'>,
    handlers: CompiledHandlers,
    { concurrency, parkedMax }: typeof defaults,
  ) {
    this.#options = options
    this.#handlers = handlers
    this.#parkedMax = parkedMax
    this.#retry = numberOptions(leastWaits, defaultWaits, options.retry)
    this.#slots = new Slots(concurrency)
  }

  get signal(): AbortSignal {
    return this.#stopping.signal
  }

  /** Begins nothing any more. */
  stop(failure?: { error: unknown }): void {
    this.#failure ??= failure
    this.#stopping.abort()
    this.#onStop()
  }

  /** The value, or undefined when the run is stopped before. One call at a time. */
  async unlessStopped<T>(value: Promise<T>): Promise<T | undefined> {
    const first = await new Promise<T | undefined>((resolve, reject) => {
      // A promise of the whole run would keep something of every wait that it is raced against.
      this.#onStop = () => resolve(undefined)
      if (this.signal.aborted) this.#onStop()
      value.then(resolve, reject)
    })
    return this.signal.aborted ? undefined : first
  }

  get hasFailed(): boolean {
    return this.#failure !== undefined
  }

  /** Waits for what is under way. Throws what stopped the run, if that was a failure. */
  async finished(): Promise<void> {
    await Promise.all(this.#underWay)
    if (this.#failure) throw this.#failure.error
  }

  /** Begins with what is parked. Parked events after the cursor are left to the stream, which brings them again. */
  async takeParked(cursor: number): Promise<void> {
    const parked = await this.#options.store.parked()
    for (const { event } of parked) if (event.seq > cursor) await this.#options.store.unpark(event.seq)
    const old = parked.filter(({ event }) => event.seq <= cursor)
    for (const { event } of old) this.#remember(event)
    for (const { event, attempts } of old) this.start(event, () => undefined, attempts)
  }

  /** Handles an event when its turn comes, and calls `done` when it is handled or parked. */
  start(event: ClientEvent, done: () => void, earlierAttempts = 0): void {
    const work = async (): Promise<void> => {
      try {
        if (await this.#deal(event, earlierAttempts)) done()
      } catch (error) {
        this.stop({ error })
      }
    }
    const promise = this.#order.run(event.did, this.#recordOf(event), work)
    this.#underWay.add(promise)
    void promise.then(() => this.#underWay.delete(promise))
  }

  /** Returns false when the run was stopped before the event was handled or parked. */
  async #deal(event: ClientEvent, earlierAttempts: number): Promise<boolean> {
    const blocker = this.#parkedBefore(event)
    if (blocker !== undefined) {
      await this.#park(event, 'after-parked', earlierAttempts, `the event of seq ${blocker} is parked`)
      return true
    }
    for (let attempt = 1; ; attempt++) {
      const tried = await this.#slots.run(async () => await this.#attempt(event, attempt))
      if (tried === 'stopped') return false
      if (tried === 'handled') {
        if (await this.#forget(event)) this.#options.onReport({ type: 'unparked', event })
        return true
      }
      const { error } = tried
      if (error instanceof InvalidRecordError) {
        // A kill in between has it reported again, and never left out in silence.
        this.#options.onReport({ type: 'invalid-record', event, detail: detailOf(error) })
        await this.#forget(event)
        return true
      }
      if (attempt >= this.#retry.attemptsMax) {
        await this.#park(event, 'handler-failed', earlierAttempts + attempt, detailOf(error))
        return true
      }
      const delayMs = backoffMs(this.#retry, attempt)
      this.#options.onReport({ type: 'retrying', event, error, attempt, delayMs })
      await delay(delayMs, this.signal)
    }
  }

  async #attempt(event: ClientEvent, attempt: number): Promise<'handled' | 'stopped' | { error: unknown }> {
    if (this.signal.aborted) return 'stopped'
    try {
      await this.#handlers.handle(event, { signal: this.signal, attempt })
      return 'handled'
    } catch (error) {
      // A handler that heeds the signal fails by it.
      return this.signal.aborted ? 'stopped' : { error }
    }
  }

  async #park(event: ClientEvent, reason: ParkReason, attempts: number, detail: string): Promise<void> {
    const { store, onReport } = this.#options
    if (this.#parkedCount >= this.#parkedMax && !this.#isParked(event)) {
      throw new ParkingFullError(
        `${this.#parkedMax} events are parked, the event of seq ${event.seq} failed too: ${detail}`,
      )
    }
    const parked = { event, reason, attempts, detail }
    this.#remember(event)
    await store.park(parked)
    onReport({ type: 'parked', parked })
  }

  /** Returns whether the event was parked. */
  async #forget(event: ClientEvent): Promise<boolean> {
    if (!this.#isParked(event)) return false
    await this.#options.store.unpark(event.seq)
    const ofAccount = this.#parked.get(event.did)
    ofAccount?.delete(event.seq)
    if (ofAccount?.size === 0) this.#parked.delete(event.did)
    this.#parkedCount--
    return true
  }

  #remember(event: ClientEvent): void {
    if (this.#isParked(event)) return
    const ofAccount = this.#parked.get(event.did) ?? new Map<number, string | undefined>()
    this.#parked.set(event.did, ofAccount.set(event.seq, this.#recordOf(event)))
    this.#parkedCount++
  }

  #isParked({ did, seq }: ClientEvent): boolean {
    return this.#parked.get(did)?.has(seq) === true
  }

  /** The seq of a parked event that comes before this one and has to be handled before it. */
  #parkedBefore(event: ClientEvent): number | undefined {
    const own = this.#recordOf(event)
    for (const [seq, record] of this.#parked.get(event.did) ?? []) {
      const isRelated = own === undefined || record === undefined || record === own
      if (seq < event.seq && isRelated) return seq
    }
    return undefined
  }

  /** What the event has its order with: a record, or undefined for the whole account. */
  #recordOf(event: ClientEvent): string | undefined {
    if (this.#options.order === 'account') return undefined
    if (event.kind === 'commit') return `${event.collection}/${event.rkey}`
    // A handle or a host says nothing of records, so a parked record does not hold it back, and it holds back no record.
    return event.kind === 'identity' ? 'identity' : undefined
  }
}

/** Handlers may throw anything, also what has no text. */
function detailOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error).slice(0, detailCharsMax)
  } catch {
    return 'what the handler threw has no text'
  }
}
