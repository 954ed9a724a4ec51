/**
 * The main thread's side of verification: gathers events into batches, one open batch per thread, and hands a batch
 * over when the thread is about to run out of work. A DID always goes to the same thread, and verdicts come back in the
 * order in which events went in, which is what keeps the events of one DID in order.
 *
 * A single small event that finds its thread idle is verified here and now: that takes less than waking the thread and
 * being woken by it, which is most of what an event costs while there are few. A thread is begun when there is the first
 * batch for it: a relay that never has that many events does without its memory.
 */
import { Worker } from 'node:worker_threads'
import type { SigningKey } from '@tributary/repo-verify'
import type { Account } from '../state/account.ts'
import type { UpstreamEvent } from '../sources/upstream-event.ts'
import { Verifier } from './verifier.ts'
import type { Verdict, VerifyReply, VerifyRequest } from './verify-messages.ts'

/** Called for each event in order. `frame` is only good during the call. */
export type OnVerdict = (event: UpstreamEvent, account: Account, verdict: Verdict, frame: Buffer) => void

const batchEventsMax = 64
const batchBytes = 256 * 1024
/** Batches with a thread at a time: one to work on and one behind it. */
const batchesAheadMax = 2
const sparesMax = 8
/** What is verified without a thread: a fraction of a millisecond's work. */
const inlineMax = { events: 2, bytes: 16 * 1024 }

interface Batch {
  buffer: Buffer
  length: number
  ends: number[]
  items: Item[]
}

interface Item {
  event: UpstreamEvent
  account: Account
  key: SigningKey
  isStrict: boolean
}

interface Lane {
  worker: Worker | undefined
  open: Batch | undefined
  readonly full: Batch[]
  readonly away: Batch[]
}

export class VerifyPool {
  readonly #lanes: Lane[]
  readonly #onVerdict: OnVerdict
  readonly #spares: Buffer[] = []
  readonly #verifier = new Verifier()
  #pendingBytes = 0
  #isScheduled = false
  #isClosed = false
  #onError: (error: Error) => void = () => {}

  constructor(options: { workers: number; onVerdict: OnVerdict }) {
    this.#onVerdict = options.onVerdict
    const newLane = (): Lane => ({ worker: undefined, open: undefined, full: [], away: [] })
    this.#lanes = Array.from({ length: options.workers }, newLane)
  }

  /** Bytes of events that wait for a verdict. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Milliseconds that the threads have worked since they began, all together. */
  get busyMs(): number {
    return this.#lanes.reduce(
      (sum, { worker }) => sum + (worker?.performance.eventLoopUtilization().active ?? 0),
      0,
    )
  }

  /** A thread died: nothing can be verified any more. */
  onError(listener: (error: Error) => void): void {
    this.#onError = listener
  }

  /** Copies the event into a batch. Its verdict comes later, in order. @param isStrict whether its source is held to Sync 1.1. */
  add(event: UpstreamEvent, account: Account, key: SigningKey, isStrict: boolean): void {
    const lane = this.#lanes[Number(account.logId % BigInt(this.#lanes.length))] ?? this.#lanes[0]
    if (!lane) return
    const { bytes } = event.message
    let batch = lane.open
    if (batch && batch.length + bytes.length > batch.buffer.length) {
      lane.full.push(batch)
      batch = undefined
    }
    batch ??= this.#newBatch(bytes.length)
    lane.open = batch
    batch.buffer.set(bytes, batch.length)
    batch.length += bytes.length
    batch.ends.push(batch.length)
    batch.items.push({ event, account, key, isStrict })
    this.#pendingBytes += bytes.length
    // The batch has its own copy; a retry copies it out again.
    event.message.bytes = noBytes
    if (batch.items.length >= batchEventsMax) {
      lane.full.push(batch)
      lane.open = undefined
      this.#send(lane)
    } else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        for (const each of this.#lanes) if (!this.#verifyHere(each)) this.#send(each)
      })
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#lanes.map(async ({ worker }) => worker?.terminate()))
  }

  #startThread(lane: Lane): Worker {
    const worker = new Worker(new URL('./verify-thread.ts', import.meta.url))
    lane.worker = worker
    worker.on('message', (reply: VerifyReply) => this.#receive(lane, reply))
    worker.on('error', (error) => this.#onError(error instanceof Error ? error : new Error(String(error))))
    return worker
  }

  #newBatch(length: number): Batch {
    const buffer =
      length > batchBytes
        ? Buffer.allocUnsafeSlow(length)
        : (this.#spares.pop() ?? Buffer.allocUnsafeSlow(batchBytes))
    return { buffer, length: 0, ends: [], items: [] }
  }

  /** Sends whole batches, and an open one to a thread that has nothing else to do. */
  #send(lane: Lane): void {
    while (!this.#isClosed && lane.away.length < batchesAheadMax) {
      let batch = lane.full.shift()
      if (!batch) {
        if (lane.away.length > 0 || !lane.open) return
        batch = lane.open
        lane.open = undefined
      }
      lane.away.push(batch)
      const buffer = batch.buffer.buffer as ArrayBuffer // allocated unpooled
      const dids = batch.items.map(({ account }) => account.did)
      const strict = batch.items.map(({ isStrict }) => isStrict)
      const request: VerifyRequest = { buffer, ends: batch.ends, dids, keys: newKeysOf(batch), strict }
      const worker = lane.worker ?? this.#startThread(lane)
      worker.postMessage(request, [buffer])
    }
  }

  /** Verifies what little there is while the lane's thread has nothing to do. False when it is too much, or busy. */
  #verifyHere(lane: Lane): boolean {
    const batch = lane.open
    if (!batch || lane.away.length + lane.full.length > 0) return false
    if (batch.items.length > inlineMax.events || batch.length > inlineMax.bytes) return false
    lane.open = undefined
    const { buffer, items, ends } = batch
    const verdicts = items.map(({ key, isStrict }, i) =>
      this.#verifier.verify(buffer.subarray(ends[i - 1] ?? 0, ends[i]), key, isStrict),
    )
    this.#deliver(batch, buffer, verdicts)
    return true
  }

  #receive(lane: Lane, { buffer, verdicts }: VerifyReply): void {
    const batch = lane.away.shift()
    if (!batch) return
    this.#send(lane)
    this.#deliver(batch, Buffer.from(buffer), verdicts)
    this.#send(lane)
  }

  #deliver({ items, ends }: Batch, bytes: Buffer, verdicts: readonly Verdict[]): void {
    let start = 0
    for (const [i, { event, account }] of items.entries()) {
      const end = ends[i] ?? start
      const verdict = verdicts[i]
      this.#pendingBytes -= end - start
      if (verdict) this.#onVerdict(event, account, verdict, bytes.subarray(start, end))
      start = end
    }
    if (bytes.length === batchBytes && this.#spares.length < sparesMax) this.#spares.push(bytes)
  }
}

/** The keys that the thread of a batch has not been sent. */
function newKeysOf({ items }: Batch): VerifyRequest['keys'] {
  const keys: VerifyRequest['keys'] = []
  for (const { account, key } of items) {
    if (account.sentKey === key) continue
    account.sentKey = key
    keys.push([account.did, key])
  }
  return keys
}

const noBytes = Buffer.alloc(0)
