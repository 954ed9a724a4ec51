/**
 * One verifying thread and its work. Until the thread is ready, which takes up to half a second, its batches are verified
 * here, a little in each turn of the event loop.
 *
 * A thread may end by itself. What it had in hand is verified again by the next one, an event at a time and before all
 * else, so that an event that ends threads costs that event only: it is a defect. When no thread can be begun, events
 * are verified here until the next attempt.
 */
import { Worker } from 'node:worker_threads'
import type { Refusal, SigningKey } from '@tributary/repo-verify'
import { endThread } from './end-thread.ts'
import { defect, orDefect, type OnVerdict, type Verdict } from './verdict.ts'
import type { ToThread, VerifyReply, VerifyRequest } from './verify-messages.ts'
import {
  batchBytes,
  batchEventsMax,
  verdictBytes,
  VerifyQueue,
  type Batch,
  type Item,
  type VerifiableEvent,
} from './verify-queue.ts'

/** Batches with a thread at a time: one to work on and one after it. */
const batchesAheadMax = 2
/** What is verified without a thread: a fraction of a millisecond's work. */
const inlineMax = { events: 2, bytes: 16 * 1024 }
/** While a thread is being started. One event is verified in each turn of the event loop in any case. */
const hereMax = { msPerTurn: 5, events: 16 }
/** What callers may do with verdicts in one turn of the event loop. One verdict is handed out in each turn in any case. */
const deliveryMsPerTurn = 10
/**
 * A batch holds the work of so many milliseconds, as far as the last ones tell: events of other sources wait for those
 * that are with the thread. In its first seconds a thread takes several times longer for an event than later.
 */
const batchMsMax = 8
/** Bytes that wait and are a batch, though they may be few events. */
const batchBytesMin = 128 * 1024
/** How much the newest batch counts in what an event takes. */
const newestShare = 0.2
/** Milliseconds until another thread is begun after one that never became ready. */
const startAgainMs = 10_000

/** How events are verified, here and on a thread. */
export interface BenchWork<E, V> {
  /** The program of a thread. It calls `serveVerification`. */
  thread: URL
  /** Verifies an event on this thread. */
  verify: (event: E, bytes: Buffer, key: SigningKey | undefined, isStrict: boolean) => V | Refusal
  /** Reads what `VerifyWork.write` has written of an event. */
  read: (text: string, event: E, bytes: Buffer) => V
}

interface BenchOptions<E, L, V> extends BenchWork<E, V> {
  onVerdict: OnVerdict<E, L, V>
  onThreadDied: (error: Error) => void
}

/** A batch of which a thread has a copy. Its own bytes stay here, for the case that the thread ends. */
interface Away<E, L> {
  batch: Batch<E, L>
  /** It is one event that an earlier thread had in hand when it ended. */
  isSuspect: boolean
}

/** A batch whose verdicts are known, and are handed out from `next` on. */
interface Delivery<E, L, V> {
  batch: Batch<E, L>
  next: number
  verdictOf: (i: number, event: E, message: Buffer) => Verdict<V> | undefined
  onDone: () => void
}

export class Bench<E extends VerifiableEvent, L, V extends { ok: true }> {
  readonly #options: BenchOptions<E, L, V>
  readonly #queue = new VerifyQueue<E, L>()
  #worker: Worker | undefined
  /** The thread takes batches. */
  #isReady = false
  /** Before this, in milliseconds of `performance.now`, no thread is begun. */
  #startAgainAtMs = 0
  /** Batches with the thread, the oldest first. */
  #away: Away<E, L>[] = []
  /** Events that a thread had in hand when it ended, each a batch, the oldest first. */
  #suspects: Batch<E, L>[] = []
  /** A batch that is verified here, and its verdicts so far. */
  #here: { batch: Batch<E, L>; verdicts: Verdict<V>[] } | undefined
  /** Batches whose verdicts were not handed out yet, the oldest first. */
  readonly #deliveries: Delivery<E, L, V>[] = []
  /** Numbers of the keys that the thread has, or will have before the next batch. */
  #keyNumbers = new WeakMap<SigningKey, number>()
  #keyCount = 0
  /** What was used for copies, to be used again. */
  readonly #copies: ArrayBuffer[] = []
  #policy: unknown
  /** What an event took lately, in milliseconds. */
  #eventMs = 0
  #pendingBytes = 0
  #isClosed = false

  constructor(options: BenchOptions<E, L, V>) {
    this.#options = options
  }

  /** Events that wait. */
  get size(): number {
    return this.#queue.size
  }

  /** Bytes of events that have no verdict. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Milliseconds that the thread has worked. */
  get busyMs(): number {
    return this.#worker?.performance.eventLoopUtilization().active ?? 0
  }

  setPolicy(policy: unknown): void {
    this.#policy = policy
    this.#post({ policy })
  }

  add(item: Item<E, L>): void {
    const { message } = item.event
    this.#pendingBytes += message.bytes.length
    this.#queue.add(item)
    // The queue has its own copy; a retry copies it out again.
    message.bytes = noBytes
  }

  /** Once in a turn of the event loop in which events were added. */
  look(): void {
    if (!this.#verifyFew()) this.send()
  }

  /** Sends whole batches, and a smaller one to a thread that has nothing else to do. */
  send(): void {
    if (this.#isClosed || this.#here) return
    if (this.#suspects.length > 0) return this.#sendSuspect()
    if (!this.#isReady) return this.#beginHere()
    while (this.#away.length < batchesAheadMax) {
      const eventsMax = eventsMaxOf(this.#eventMs)
      const isSmall = this.#queue.size < eventsMax && this.#queue.bytes < batchBytesMin
      if (this.#away.length > 0 && isSmall) return
      const batch = this.#queue.take(eventsMax)
      if (!batch) return
      this.#handOver(batch, false)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#worker) await endThread(this.#worker)
  }

  #handOver(batch: Batch<E, L>, isSuspect: boolean): void {
    this.#away.push({ batch, isSuspect })
    const buffer = this.#copyOf(batch)
    const newKeys: VerifyRequest['newKeys'] = []
    const keys = batch.items.map(({ key }) => (key ? this.#numberOf(key, newKeys) : 0))
    const strict = batch.items.map(({ isStrict }) => isStrict)
    this.#post({ buffer, ends: batch.ends, keys, newKeys, strict }, [buffer])
  }

  #post(message: ToThread, transferred: ArrayBuffer[] = []): void {
    this.#worker?.postMessage(message, transferred)
  }

  /** The messages of a batch, and room for verdicts. */
  #copyOf({ buffer, length }: Batch<E, L>): ArrayBuffer {
    const bytes = length + verdictBytes
    const copy =
      bytes > batchBytes ? new ArrayBuffer(bytes) : (this.#copies.pop() ?? new ArrayBuffer(batchBytes))
    buffer.copy(new Uint8Array(copy), 0, 0, length)
    return copy
  }

  /** The number of a key. One that has none gets one, and is added to those to be sent. */
  #numberOf(key: SigningKey, newKeys: VerifyRequest['newKeys']): number {
    let number = this.#keyNumbers.get(key)
    if (number === undefined) {
      number = ++this.#keyCount
      this.#keyNumbers.set(key, number)
      newKeys.push([number, key])
    }
    return number
  }

  #sendSuspect(): void {
    if (this.#away.length > 0) return
    this.#beginThread()
    if (this.#worker && !this.#isReady) return
    const suspect = this.#suspects.shift()
    if (!suspect) return
    if (this.#isReady) this.#handOver(suspect, true)
    else this.#verifyHere(suspect)
  }

  /** Takes a batch whose thread is not ready, and verifies it in this and the next turns of the event loop. */
  #beginHere(): void {
    const batch = this.#queue.take(hereMax.events)
    if (!batch) return
    this.#beginThread()
    this.#verifyHere(batch)
  }

  #verifyHere(batch: Batch<E, L>): void {
    this.#here = { batch, verdicts: [] }
    this.#goOnHere(this.#here)
  }

  #goOnHere({ batch, verdicts }: { batch: Batch<E, L>; verdicts: Verdict<V>[] }): void {
    if (this.#isClosed) return
    const endsMs = performance.now() + hereMax.msPerTurn
    do verdicts.push(this.#verifyItem(batch, verdicts.length))
    while (verdicts.length < batch.items.length && performance.now() < endsMs)
    const isOver = verdicts.length === batch.items.length
    if (isOver) {
      this.#deliver(batch, (i) => verdicts[i])
      this.#here = undefined
    }
    setImmediate(() => (isOver ? this.send() : this.#goOnHere({ batch, verdicts })))
  }

  /** Verifies what little there is while the thread has nothing to do. False when it is too much, or busy. */
  #verifyFew(): boolean {
    const { size, bytes } = this.#queue
    const isBusy = this.#here !== undefined || this.#away.length + this.#suspects.length > 0
    if (isBusy || this.#isClosed || size > inlineMax.events || bytes > inlineMax.bytes) return false
    const batch = this.#queue.take(inlineMax.events)
    if (!batch) return false
    const verdicts = batch.items.map((_, i) => this.#verifyItem(batch, i))
    this.#deliver(batch, (i) => verdicts[i])
    return true
  }

  #verifyItem(batch: Batch<E, L>, i: number): Verdict<V> {
    const item = batch.items[i]
    if (!item) throw new Error('invariant broken: a verdict is asked for that no event waits for')
    const bytes = messageOf(batch, i)
    return orDefect(() => this.#options.verify(item.event, bytes, item.key, item.isStrict))
  }

  #beginThread(): void {
    if (this.#worker || performance.now() < this.#startAgainAtMs) return
    try {
      const worker = new Worker(this.#options.thread)
      let cause: unknown = 'it ended itself'
      worker.on('message', (reply: VerifyReply<V> | 'ready') => this.#onReply(reply))
      worker.on('error', (error) => (cause = error))
      worker.on('exit', () => this.#onDeath(cause))
      this.#worker = worker
      if (this.#policy !== undefined) this.#post({ policy: this.#policy })
    } catch (error) {
      // The system has no room for another thread.
      this.#onDeath(error)
    }
  }

  #onDeath(cause: unknown): void {
    if (this.#isClosed) return
    const inHand = this.#away
    if (!this.#isReady) this.#startAgainAtMs = performance.now() + startAgainMs
    this.#worker = undefined
    this.#isReady = false
    this.#away = []
    this.#keyNumbers = new WeakMap()
    const error = new Error('a verifying thread has ended', { cause })
    this.#options.onThreadDied(error)
    for (const { batch, isSuspect } of inHand) {
      if (isSuspect) this.#deliver(batch, () => defect(error))
      else this.#suspects.push(...eachAlone(batch))
    }
    setImmediate(() => this.send())
  }

  #onReply(reply: VerifyReply<V> | 'ready'): void {
    if (reply === 'ready') this.#isReady = true
    else this.#receive(reply)
    this.send()
  }

  #receive({ buffer, verdictEnds, others, tookMs }: VerifyReply<V>): void {
    const away = this.#away.shift()
    if (!away) return
    const { batch } = away
    this.#eventMs += newestShare * (tookMs / batch.items.length - this.#eventMs)
    this.send()
    const bytes = Buffer.from(buffer)
    const onDone = (): void => {
      if (buffer.byteLength === batchBytes && this.#copies.length < batchesAheadMax) this.#copies.push(buffer)
    }
    this.#deliver(
      batch,
      (i, event, message) => {
        const other = others.get(i)
        if (typeof other === 'object') return other
        const text = other ?? bytes.toString('latin1', verdictEnds[i - 1] ?? batch.length, verdictEnds[i])
        return orDefect(() => this.#options.read(text, event, message))
      },
      onDone,
    )
  }

  #deliver(
    batch: Batch<E, L>,
    verdictOf: Delivery<E, L, V>['verdictOf'],
    onDone: () => void = () => {},
  ): void {
    this.#deliveries.push({ batch, next: 0, verdictOf, onDone })
    // Else it has its turn after the others.
    if (this.#deliveries.length === 1) this.#goOnDelivering()
  }

  /** Hands out verdicts in this and the next turns of the event loop: a few may cost callers as much as most batches do. */
  #goOnDelivering(): void {
    const endsMs = performance.now() + deliveryMsPerTurn
    for (let delivery = this.#deliveries[0]; delivery; delivery = this.#deliveries[0]) {
      if (this.#isClosed) return
      if (delivery.next < delivery.batch.items.length) this.#deliverNext(delivery)
      if (delivery.next === delivery.batch.items.length) {
        this.#queue.giveBack(delivery.batch.buffer)
        delivery.onDone()
        this.#deliveries.shift()
      }
      if (this.#deliveries.length > 0 && performance.now() >= endsMs) {
        setImmediate(() => this.#goOnDelivering())
        return
      }
    }
  }

  #deliverNext(delivery: Delivery<E, L, V>): void {
    const { batch, verdictOf } = delivery
    const i = delivery.next++
    const item = batch.items[i]
    if (!item) return
    const message = messageOf(batch, i)
    const verdict = verdictOf(i, item.event, message)
    this.#pendingBytes -= message.length
    if (item.key && verdict && !verdict.ok && verdict.reason === 'missing-key')
      this.#keyNumbers.delete(item.key)
    if (verdict) this.#options.onVerdict(item.event, item.lane, verdict, message)
  }
}

function messageOf<E, L>({ buffer, ends }: Batch<E, L>, i: number): Buffer {
  return buffer.subarray(ends[i - 1] ?? 0, ends[i])
}

/** How many events a batch may have now. */
function eventsMaxOf(eventMs: number): number {
  return Math.max(1, Math.min(batchEventsMax, Math.floor(batchMsMax / eventMs)))
}

/** Each event of a batch as a batch. */
function eachAlone<E, L>(batch: Batch<E, L>): Batch<E, L>[] {
  return batch.items.map((item, i) => {
    const message = messageOf(batch, i)
    return { buffer: message, length: message.length, ends: [message.length], items: [item] }
  })
}

const noBytes = Buffer.alloc(0)
