/**
 * The main thread's side of verification: gathers events into batches, and hands a batch over when the thread is about to
 * run out of work. A DID always goes to the same thread, sources take turns in what waits for a thread, and verdicts on
 * the events of one source come back in the order in which these went in, which keeps the events of one DID in order.
 *
 * A single small event that finds its thread idle is verified here and now: that takes less than waking the thread and
 * being woken by it, which is most of what an event costs while there are few. A thread is begun when there is the first
 * batch for it: a relay that never has that many events does without its memory. Until the thread is ready, which takes
 * up to half a second, its batches are verified here, a little in each turn of the event loop.
 */
import { Worker } from 'node:worker_threads'
import type { SigningKey } from '@tributary/repo-verify'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { readVerdict } from './verdict-text.ts'
import { Verifier } from './verifier.ts'
import type { Verdict, VerifyReply, VerifyRequest } from './verify-messages.ts'
import { batchEventsMax, VerifyQueue, type Batch, type EventLane } from './verify-queue.ts'

/** Called for each event in order. `bytes`, the message, are only good during the call. */
export type OnVerdict = (event: UpstreamEvent, lane: EventLane, verdict: Verdict, bytes: Buffer) => void

/** Batches with a thread at a time: one to work on and one behind it. */
const batchesAheadMax = 2
/** What is verified without a thread: a fraction of a millisecond's work. */
const inlineMax = { events: 2, bytes: 16 * 1024 }
/** While a thread is being started. One event is verified in each turn of the event loop in any case. */
const hereMax = { msPerTurn: 5, events: 16 }
/**
 * A batch holds the work of so many milliseconds, as far as the last ones tell: events of other sources wait for those
 * that are with the thread. In its first seconds a thread takes several times longer for an event than later.
 */
const batchMsMax = 8
/** Bytes that wait and are a batch, though they may be few events. */
const batchBytesMin = 128 * 1024
/** How much the newest batch counts in what an event takes. */
const newestShare = 0.2

/** A thread and its work. */
interface Bench {
  worker: Worker | undefined
  /** The thread takes batches. */
  isReady: boolean
  /** A batch that is verified here because the thread was not ready, and its verdicts so far. */
  here: { batch: Batch; verdicts: Verdict[] } | undefined
  readonly queue: VerifyQueue
  readonly away: Batch[]
  /** What an event took lately, in milliseconds. */
  eventMs: number
}

/** Where commits and syncs are verified. Verdicts on the events of one DID come in the order in which those were added. */
export interface Verification {
  /** Bytes of events that wait for a verdict. */
  readonly pendingBytes: number
  /** Milliseconds that it has taken since the start, all threads together. */
  readonly busyMs: number
  /** Called for each event. */
  onVerdict(listener: OnVerdict): void
  /** Nothing can be verified any more. */
  onError(listener: (error: Error) => void): void
  /** Takes a copy of the event. Its verdict comes later. @param isStrict whether its source is held to Sync 1.1. */
  add(event: UpstreamEvent, lane: EventLane, key: SigningKey, isStrict: boolean): void
  close(): Promise<void>
}

export class VerifyPool implements Verification {
  readonly #benches: Bench[]
  readonly #verifier = new Verifier()
  /** Numbers of the keys that the threads have, or will have before the next batch. */
  readonly #keyNumbers = new WeakMap<SigningKey, number>()
  #keyCount = 0
  #pendingBytes = 0
  #isScheduled = false
  #isClosed = false
  #onVerdict: OnVerdict = () => {}
  #onError: (error: Error) => void = () => {}

  constructor({ workers }: { workers: number }) {
    const newBench = (): Bench => ({
      worker: undefined,
      isReady: false,
      here: undefined,
      queue: new VerifyQueue(),
      away: [],
      eventMs: 0,
    })
    this.#benches = Array.from({ length: workers }, newBench)
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  get busyMs(): number {
    return this.#benches.reduce(
      (sum, { worker }) => sum + (worker?.performance.eventLoopUtilization().active ?? 0),
      0,
    )
  }

  onVerdict(listener: OnVerdict): void {
    this.#onVerdict = listener
  }

  onError(listener: (error: Error) => void): void {
    this.#onError = listener
  }

  add(event: UpstreamEvent, lane: EventLane, key: SigningKey, isStrict: boolean): void {
    // An account keeps its row while events of it are under way.
    const bench = this.#benches[event.account.row % this.#benches.length]
    if (!bench) return
    const { bytes } = event.message
    this.#pendingBytes += bytes.length
    bench.queue.add({ event, lane, key, isStrict })
    // The queue has its own copy; a retry copies it out again.
    event.message.bytes = noBytes
    if (bench.queue.size >= batchEventsMax) {
      this.#send(bench)
    } else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        for (const each of this.#benches) if (!this.#verifyHere(each)) this.#send(each)
      })
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#benches.map(async ({ worker }) => worker?.terminate()))
  }

  #startThread(bench: Bench): Worker {
    const worker = new Worker(new URL('./verify-thread.ts', import.meta.url))
    bench.worker = worker
    worker.on('message', (reply: VerifyReply | 'ready') => {
      if (reply === 'ready') bench.isReady = true
      else this.#receive(bench, reply)
    })
    worker.on('error', (error) => this.#onError(error instanceof Error ? error : new Error(String(error))))
    return worker
  }

  /** Sends whole batches, and a smaller one to a thread that has nothing else to do. */
  #send(bench: Bench): void {
    if (this.#isClosed || bench.here) return
    if (!bench.isReady) return this.#beginHere(bench)
    while (bench.away.length < batchesAheadMax) {
      const { queue, away } = bench
      const eventsMax = eventsMaxOf(bench)
      if (away.length > 0 && queue.size < eventsMax && queue.bytes < batchBytesMin) return
      const batch = queue.take(eventsMax)
      if (!batch) return
      away.push(batch)
      const buffer = batch.buffer.buffer as ArrayBuffer // allocated unpooled
      const newKeys: VerifyRequest['newKeys'] = []
      const keys = batch.items.map(({ key }) => this.#numberOf(key, newKeys))
      const strict = batch.items.map(({ isStrict }) => isStrict)
      const request: VerifyRequest = { buffer, ends: batch.ends, keys, newKeys, strict }
      bench.worker?.postMessage(request, [buffer])
    }
  }

  /** Takes a batch whose thread is not ready, and verifies it in this and the next turns of the event loop. */
  #beginHere(bench: Bench): void {
    const batch = bench.queue.take(hereMax.events)
    if (!batch) return
    bench.worker ??= this.#startThread(bench)
    bench.here = { batch, verdicts: [] }
    this.#goOnHere(bench, bench.here)
  }

  #goOnHere(bench: Bench, { batch, verdicts }: NonNullable<Bench['here']>): void {
    if (this.#isClosed) return
    const endsMs = performance.now() + hereMax.msPerTurn
    do verdicts.push(this.#verifyItem(batch, verdicts.length))
    while (verdicts.length < batch.items.length && performance.now() < endsMs)
    const isOver = verdicts.length === batch.items.length
    if (isOver) {
      this.#deliver(bench, batch, batch.buffer, (i) => verdicts[i])
      bench.here = undefined
    }
    setImmediate(() => (isOver ? this.#send(bench) : this.#goOnHere(bench, { batch, verdicts })))
  }

  #verifyItem({ buffer, items, ends }: Batch, i: number): Verdict {
    const item = items[i]
    if (!item) throw new Error('invariant broken: a verdict is asked for that no event waits for')
    return this.#verifier.verify(buffer.subarray(ends[i - 1] ?? 0, ends[i]), item.key, item.isStrict)
  }

  /** The number of a key. One that has none gets one, and is added to those to be sent. A key goes to one thread only. */
  #numberOf(key: SigningKey, newKeys: VerifyRequest['newKeys']): number {
    let number = this.#keyNumbers.get(key)
    if (number === undefined) {
      number = ++this.#keyCount
      this.#keyNumbers.set(key, number)
      newKeys.push([number, key])
    }
    return number
  }

  /** Verifies what little there is while the bench's thread has nothing to do. False when it is too much, or busy. */
  #verifyHere(bench: Bench): boolean {
    const { queue, here, away } = bench
    if (here || away.length > 0 || queue.size > inlineMax.events || queue.bytes > inlineMax.bytes)
      return false
    const batch = queue.take(inlineMax.events)
    if (!batch) return false
    const verdicts = batch.items.map((_, i) => this.#verifyItem(batch, i))
    this.#deliver(bench, batch, batch.buffer, (i) => verdicts[i])
    return true
  }

  #receive(bench: Bench, { buffer, verdictEnds, others, tookMs }: VerifyReply): void {
    const batch = bench.away.shift()
    if (!batch) return
    bench.eventMs += newestShare * (tookMs / batch.items.length - bench.eventMs)
    this.#send(bench)
    const bytes = Buffer.from(buffer)
    this.#deliver(bench, batch, bytes, (i) => {
      const other = others.get(i)
      if (other) return other
      return readVerdict(bytes.toString('latin1', verdictEnds[i - 1] ?? batch.length, verdictEnds[i]))
    })
    this.#send(bench)
  }

  #deliver(
    { queue }: Bench,
    { items, ends }: Batch,
    bytes: Buffer,
    verdictOf: (i: number) => Verdict | undefined,
  ): void {
    let start = 0
    for (const [i, { event, lane, key }] of items.entries()) {
      const end = ends[i] ?? start
      const verdict = verdictOf(i)
      this.#pendingBytes -= end - start
      if (verdict && !verdict.ok && verdict.reason === 'missing-key') this.#keyNumbers.delete(key)
      if (verdict) this.#onVerdict(event, lane, verdict, bytes.subarray(start, end))
      start = end
    }
    queue.giveBack(bytes)
  }
}

/** How many events a batch may have now. */
function eventsMaxOf({ eventMs }: Bench): number {
  return Math.max(1, Math.min(batchEventsMax, Math.floor(batchMsMax / eventMs)))
}

const noBytes = Buffer.alloc(0)
