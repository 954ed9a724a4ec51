/**
 * The main thread's side of verification: gathers events into batches, one open batch per thread, and hands a batch
 * over when the thread is about to run out of work. A DID always goes to the same thread, and verdicts come back in the
 * order in which events went in, which is what keeps the events of one DID in order.
 *
 * A single small event that finds its thread idle is verified here and now: that takes less than waking the thread and
 * being woken by it, which is most of what an event costs while there are few. A thread is begun when there is the first
 * batch for it: a relay that never has that many events does without its memory. Until the thread is ready, which takes
 * up to half a second, its batches are verified here, a little in each turn of the event loop.
 */
import { Worker } from 'node:worker_threads'
import type { Lane } from '@tributary/lanes'
import type { SigningKey } from '@tributary/repo-verify'
import type { Source } from '../sources/source.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { readVerdict } from './verdict-text.ts'
import { Verifier } from './verifier.ts'
import type { Verdict, VerifyReply, VerifyRequest } from './verify-messages.ts'

/** Called for each event in order. `bytes`, the message, are only good during the call. */
export type OnVerdict = (event: UpstreamEvent, lane: EventLane, verdict: Verdict, bytes: Buffer) => void

type EventLane = Lane<Source, UpstreamEvent>

const batchEventsMax = 64
const batchBytes = 256 * 1024
/** Room for the verdicts of a batch: most take some 200 bytes. */
const verdictBytes = 32 * 1024
/** Batches with a thread at a time: one to work on and one behind it. */
const batchesAheadMax = 2
const sparesMax = 8
/** What is verified without a thread: a fraction of a millisecond's work. */
const inlineMax = { events: 2, bytes: 16 * 1024 }
/** Of one turn of the event loop, while a thread is being started. One event is verified in any case. */
const hereMsMax = 5

interface Batch {
  buffer: Buffer
  length: number
  ends: number[]
  items: Item[]
}

interface Item {
  event: UpstreamEvent
  lane: EventLane
  key: SigningKey
  isStrict: boolean
}

/** A thread and its work. */
interface Bench {
  worker: Worker | undefined
  /** The thread takes batches. */
  isReady: boolean
  /** A batch that is verified here because the thread was not ready, and its verdicts so far. */
  here: { batch: Batch; verdicts: Verdict[] } | undefined
  open: Batch | undefined
  readonly full: Batch[]
  readonly away: Batch[]
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
  readonly #spares: Buffer[] = []
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
      open: undefined,
      full: [],
      away: [],
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
    let batch = bench.open
    if (batch && batch.length + bytes.length > batch.buffer.length - verdictBytes) {
      bench.full.push(batch)
      batch = undefined
    }
    batch ??= this.#newBatch(bytes.length)
    bench.open = batch
    batch.buffer.set(bytes, batch.length)
    batch.length += bytes.length
    batch.ends.push(batch.length)
    batch.items.push({ event, lane, key, isStrict })
    this.#pendingBytes += bytes.length
    // The batch has its own copy; a retry copies it out again.
    event.message.bytes = noBytes
    if (batch.items.length >= batchEventsMax) {
      bench.full.push(batch)
      bench.open = undefined
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

  #newBatch(length: number): Batch {
    const buffer =
      length > batchBytes - verdictBytes
        ? Buffer.allocUnsafeSlow(length + verdictBytes)
        : (this.#spares.pop() ?? Buffer.allocUnsafeSlow(batchBytes))
    return { buffer, length: 0, ends: [], items: [] }
  }

  /** Sends whole batches, and an open one to a thread that has nothing else to do. */
  #send(bench: Bench): void {
    if (this.#isClosed || bench.here) return
    if (!bench.isReady) return this.#beginHere(bench)
    while (bench.away.length < batchesAheadMax) {
      const batch = nextBatch(bench)
      if (!batch) return
      bench.away.push(batch)
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
    const batch = nextBatch(bench)
    if (!batch) return
    bench.worker ??= this.#startThread(bench)
    bench.here = { batch, verdicts: [] }
    this.#goOnHere(bench, bench.here)
  }

  #goOnHere(bench: Bench, { batch, verdicts }: NonNullable<Bench['here']>): void {
    if (this.#isClosed) return
    const endsMs = performance.now() + hereMsMax
    do verdicts.push(this.#verifyItem(batch, verdicts.length))
    while (verdicts.length < batch.items.length && performance.now() < endsMs)
    const isOver = verdicts.length === batch.items.length
    if (isOver) {
      this.#deliver(batch, batch.buffer, (i) => verdicts[i])
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
    const batch = bench.open
    if (!batch || bench.here || bench.away.length + bench.full.length > 0) return false
    if (batch.items.length > inlineMax.events || batch.length > inlineMax.bytes) return false
    bench.open = undefined
    const verdicts = batch.items.map((_, i) => this.#verifyItem(batch, i))
    this.#deliver(batch, batch.buffer, (i) => verdicts[i])
    return true
  }

  #receive(bench: Bench, { buffer, verdictEnds, others }: VerifyReply): void {
    const batch = bench.away.shift()
    if (!batch) return
    this.#send(bench)
    const bytes = Buffer.from(buffer)
    this.#deliver(batch, bytes, (i) => {
      const other = others.get(i)
      if (other) return other
      return readVerdict(bytes.toString('latin1', verdictEnds[i - 1] ?? batch.length, verdictEnds[i]))
    })
    this.#send(bench)
  }

  #deliver({ items, ends }: Batch, bytes: Buffer, verdictOf: (i: number) => Verdict | undefined): void {
    let start = 0
    for (const [i, { event, lane, key }] of items.entries()) {
      const end = ends[i] ?? start
      const verdict = verdictOf(i)
      this.#pendingBytes -= end - start
      if (verdict && !verdict.ok && verdict.reason === 'missing-key') this.#keyNumbers.delete(key)
      if (verdict) this.#onVerdict(event, lane, verdict, bytes.subarray(start, end))
      start = end
    }
    if (bytes.length === batchBytes && this.#spares.length < sparesMax) this.#spares.push(bytes)
  }
}

/** The next whole batch, or the open one when its thread has nothing else to do. */
function nextBatch(bench: Bench): Batch | undefined {
  const whole = bench.full.shift()
  if (whole || bench.away.length > 0) return whole
  const { open } = bench
  bench.open = undefined
  return open
}

const noBytes = Buffer.alloc(0)
