/**
 * Folds the events of the stream into the index database.
 *
 * What must hold: events and the cursor after them are one transaction, so an event takes effect exactly once however often
 * it arrives; the result depends on the order of the events only, not on how they were cut into batches and transactions;
 * and the rows a feed reads are, after the work of every event, a function of the visible records. A transaction ends with
 * the event that makes it large, and the work of one event that is larger is cut into several, so that other writers have
 * theirs; it goes over as many turns of the event loop as it needs. An event that the fold cannot handle costs that event
 * alone; only a fault of the database is thrown. Network and clocks are elsewhere: times are those of the events.
 */
import { type Batch, IndexStorageError, type IndexWriter } from '@tributary/index-store'
import type { Did, StreamEvent } from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import { changeAccount } from './account-changes.ts'
import { stateOf } from './accounts.ts'
import { adopt } from './adopt.ts'
import { type AccountChange, applyEvent, type Making } from './apply-event.ts'
import { type Cause, type CutPoints, Cuts, noteFinished, type Unfinished, unfinishedIn } from './cuts.ts'
import type { EarlierPlaces } from './earlier-places.ts'
import type { FeedPolicy } from './feed-rows.ts'
import { eventsRemembered, type FoldedEvent, FollowedStream, newestOf } from './followed-stream.ts'
import { IndexRows, notedMax } from './index-rows.ts'
import { relist } from './relist.ts'
import { settle, settleAll, settleWhenMuch, writeChanges } from './settle.ts'
import { BesideTurns, workBeside } from './work-beside.ts'

/** How much the fold does at once. */
interface FoldBounds {
  /** Rows that statements of events at once are about before their transaction ends with the event it is at, or is cut. */
  readonly transactionRows: number
  /** So much may be noted before it is settled. */
  readonly noted: number
  /**
   * Rows that the authors of a batch may have made again where their events stand, all together. Work about more is noted,
   * and `workBeside` does it this much at a time. Undefined: all is done where its event stands.
   */
  readonly besideRows?: number
}

/** Events whose rows are loaded, changed and written together. More gain little, and their records are in memory. */
const eventsAtOnce = 2000
/** The same in bytes of an archive, of which each may take fifty in memory. 2,000 records have some 800,000. */
const bytesAtOnce = 2_000_000
/** 2,000 events that each concern one record have fewer. A commit of many more takes over 100 ms on SQLite. */
const boundsDefault: FoldBounds = { transactionRows: 20_000, noted: notedMax }

/** What became of the events of one batch. */
export interface FoldCounts {
  applied: number
  /** At or below the cursor: seen before. */
  repeated: number
  /** Without what their kind needs; the index is as if they had not been sent. */
  malformed: number
  /** Events that the fold failed at, which is a defect of ours; the index is as if they had not been sent. */
  failed: FoldFailure[]
}

export interface FoldFailure {
  seq: number
  did: Did
  error: unknown
}

/** Reads events when their turn comes, so that not all of them need memory. */
export interface EventReader {
  /** The event as a plain object; undefined if it is malformed. */
  readonly read: (event: StreamEvent) => StreamEvent | undefined
  /** Bytes that are decoded for that; 0 for an event that is a plain object already. */
  readonly bytesOf: (event: StreamEvent) => number
}

const plain: EventReader = { read: (event) => event, bytesOf: () => 0 }

/** A transaction that applies events. */
interface Applying {
  readonly batch: Batch
  /** Moves the cursor after one of the events. */
  readonly advance: (cause: Cause) => Promise<void>
}

/** What `apply` was given. */
interface Given {
  readonly source: string
  readonly events: readonly StreamEvent[]
  readonly cursor: number
  readonly reader: EventReader
}

export class Fold {
  readonly stream: FollowedStream
  /** How many authors had work to be done beside the events at the last look, those included whose work has failed. */
  authorsBeside = 0
  readonly #writer: IndexWriter
  readonly #making: Making
  readonly #earlier: EarlierPlaces | undefined
  readonly #bounds: FoldBounds
  #last: Promise<void> = Promise.resolve()
  /** An earlier transaction may have left something to do. */
  #mayBeUnfinished = true
  /** Events of which the rest failed, until they are told. */
  #failed: FoldFailure[] = []
  /** There may be work to be done beside the events. */
  #mayHaveBeside = true
  #isBesideUnderWay = false
  /** Work that failed before the start has got another try. */
  #hasRetried = false
  readonly #turns = new BesideTurns()

  /** @param earlier what is known of records from an index that this one is to take the place of */
  constructor(
    writer: IndexWriter,
    policy: FeedPolicy,
    views: RecordViews,
    { earlier, ...bounds }: { earlier?: EarlierPlaces } & Partial<FoldBounds> = {},
  ) {
    this.#writer = writer
    this.#earlier = earlier
    this.#bounds = { ...boundsDefault, ...bounds }
    this.#making = { policy, views }
    this.stream = new FollowedStream(writer)
  }

  /**
   * Applies events of one source in order and moves its cursor to `cursor`, or to the last event if that is further.
   * Events at or below the cursor are passed over. On a fault of the database what happened is what the cursor says.
   */
  async apply(
    source: string,
    events: readonly StreamEvent[],
    cursor: number,
    reader: EventReader = plain,
  ): Promise<FoldCounts> {
    const counts = newCounts()
    for (let rest: readonly StreamEvent[] | undefined = events; rest !== undefined;)
      rest = await this.#alone(() => this.#applyFirst({ source, events: rest ?? [], cursor, reader }, counts))
    counts.failed.unshift(...this.#failed.splice(0))
    return counts
  }

  /** Does what a fold that was killed has left to do. Every other method that writes does it first. */
  async finish(): Promise<FoldCounts> {
    await this.#alone(() => this.#finish())
    return { ...newCounts(), failed: this.#failed.splice(0) }
  }

  /** What one call is at is not interrupted by another one, although its transactions are. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.#enter()
    try {
      return await work()
    } finally {
      leave()
    }
  }

  /** Waits for the turn of a call. The result ends it. */
  async #enter(): Promise<() => void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const before = this.#last
    this.#last = promise
    await before
    return resolve
  }

  /**
   * Does the work of one author that is noted to be done beside the events, while other calls have their turns.
   * @param signal leaves it for later.
   * @param of does nothing but remove what is shown of accounts that are hidden.
   * @returns how many authors had such work; 0 also while another call does some.
   */
  async workBeside(signal: AbortSignal, of: 'all' | 'hidden' = 'all'): Promise<number> {
    const { besideRows } = this.#bounds
    if (!this.#mayHaveBeside || this.#isBesideUnderWay || besideRows === undefined || signal.aborted) return 0
    this.#isBesideUnderWay = true
    let leave = await this.#enter()
    try {
      await this.#finish()
      if (!this.#hasRetried) await this.#writer.write((batch) => batch.queues.retryRemakes())
      this.#hasRetried = true
      this.#mayHaveBeside = of === 'hidden'
      const { policy } = this.#making
      const authors = await workBeside({
        writer: this.#writer,
        policy,
        rowsMax: besideRows,
        noted: this.#bounds.noted,
        giveWay: async () => {
          leave()
          leave = await this.#enter()
        },
        onAuthors: (count) => (this.authorsBeside = count),
        turns: this.#turns,
        of,
        signal,
        onFailed: ({ seq, did }, error) => void this.#failed.push({ seq: Number(seq), did, error }),
      })
      if (authors > 0) this.#mayHaveBeside = true
      return authors
    } finally {
      this.#isBesideUnderWay = false
      leave()
    }
  }

  async #finish(): Promise<void> {
    if (!this.#mayBeUnfinished) return
    const left = await this.#writer.write(unfinishedIn)
    try {
      if (left !== undefined) await this.#writer.write((batch) => this.#goOn(batch, left))
    } catch (error) {
      if (error instanceof IndexStorageError || left === undefined) throw error
      this.#failed.push({ ...left.cause, error })
      await this.#writer.write(noteFinished)
    }
    this.#mayBeUnfinished = false
  }

  async #goOn(batch: Batch, left: Unfinished): Promise<void> {
    const { cause, change, waiting = [], listings = [], affected } = left
    const rows = new IndexRows(undefined, this.#bounds.noted)
    rows.affected.add(affected)
    const cuts = this.#cuts(batch, cause, rows)
    for (const each of waiting) cuts.waiting.set(each.did, each)
    cuts.change = change
    await relist(batch, rows, listings, cuts)
    if (change) await this.#change(batch, rows, change, cuts)
    await this.#changeWaiting(batch, rows, cuts.waiting, cuts)
    await settle(batch, rows.affected, cuts)
    await noteFinished(batch)
  }

  #cuts(batch: Batch, cause: Cause, { affected }: IndexRows, advance?: Applying['advance']): Cuts {
    const { transactionRows, besideRows } = this.#bounds
    const onPut = (): void => void (this.#mayHaveBeside = true)
    return new Cuts(batch, cause, {
      affected,
      rowsMax: transactionRows,
      ...(besideRows !== undefined && { beside: { rowsMax: besideRows, onPut } }),
      ...(advance && { advance }),
    })
  }

  /** One transaction: all events, or the first of them if those touch many rows. Returns the others; undefined without any. */
  async #applyFirst(given: Given, counts: FoldCounts): Promise<readonly StreamEvent[] | undefined> {
    await this.#finish()
    const own = newCounts()
    try {
      return await this.#transaction(given, own, ({ batch, advance }, events) =>
        this.#applySome(batch, events, own, advance),
      )
    } catch (error) {
      if (error instanceof IndexStorageError) throw error
      Object.assign(own, newCounts())
      await this.#finish()
      return await this.#transaction(given, own, ({ batch }, events) => this.#applyApart(batch, events, own))
    } finally {
      add(counts, own)
    }
  }

  /** @param apply gives how many of the events were applied: the transaction may be full before all are. */
  #transaction(
    { source, events, cursor, reader }: Given,
    counts: FoldCounts,
    apply: (applying: Applying, events: readonly StreamEvent[]) => Promise<number>,
  ): Promise<readonly StreamEvent[] | undefined> {
    return this.#unfinishedUntilDone(async (batch) => {
      const start = await this.stream.cursorIn(batch, source)
      let position = start
      const fresh: StreamEvent[] = []
      for (const event of events) {
        if (event.seq <= position) {
          counts.repeated++
          continue
        }
        position = event.seq
        fresh.push(event)
      }
      let done = 0
      let newest: readonly FoldedEvent[] = []
      for (let isFull = false; done < fresh.length && !isFull;) {
        const { next, some } = await readSome(batch, reader, fresh.slice(done, done + eventsAtOnce))
        const earlier = newest
        const advance = ({ seq }: Cause): Promise<void> => {
          const through = some.filter((event) => event.seq <= seq)
          return this.stream.advance(batch, source, seq, [...earlier, ...newestOf(through)])
        }
        const applied = await apply({ batch, advance }, some)
        newest = [...newest, ...newestOf(some.slice(0, applied))].slice(-eventsRemembered)
        const first = some[applied]
        const through = first === undefined ? next.length : next.findIndex(({ seq }) => seq === first.seq)
        counts.malformed += through - applied
        done += through
        isFull = first !== undefined || batch.rows >= this.#bounds.transactionRows
      }
      const rest = fresh.slice(done)
      if (rest.length > 0) position = fresh[done - 1]?.seq ?? start
      else position = Math.max(position, cursor)
      if (position > start) await this.stream.advance(batch, source, position, newest)
      return rest.length > 0 ? rest : undefined
    })
  }

  /** A transaction that may be cut. */
  async #unfinishedUntilDone<T>(work: (batch: Batch) => Promise<T>): Promise<T> {
    this.#mayBeUnfinished = true
    const result = await this.#writer.write(work)
    this.#mayBeUnfinished = false
    return result
  }

  /** The same as `#applySome`. Events that fail are found by halves, taken back one by one, and noted. */
  async #applyApart(batch: Batch, events: readonly StreamEvent[], counts: FoldCounts): Promise<number> {
    const own = newCounts()
    try {
      const done = await batch.savepoint(() => this.#applySome(batch, events, own))
      add(counts, own)
      return done
    } catch (error) {
      if (error instanceof IndexStorageError) throw error
      const [event, second] = events
      if (event === undefined) throw error
      if (second === undefined) {
        counts.failed.push({ seq: event.seq, did: event.did, error })
        return 1
      }
    }
    const half = events.length >> 1
    const done = await this.#applyApart(batch, events.slice(0, half), counts)
    if (done < half) return done
    return done + (await this.#applyApart(batch, events.slice(half), counts))
  }

  /** Returns how many of the events were applied: the transaction may be full before all are. */
  async #applySome(
    batch: Batch,
    events: readonly StreamEvent[],
    counts: FoldCounts,
    advance?: Applying['advance'],
  ): Promise<number> {
    const [first] = events
    if (first === undefined) return 0
    const rows = new IndexRows(this.#earlier, this.#bounds.noted)
    const rowsBefore = batch.rows
    const cuts = advance && this.#cuts(batch, first, rows, advance)
    await rows.load(batch, events)
    const waiting = cuts?.waiting ?? new Map<Did, AccountChange>()
    const lastOf = lastAccountEvents(events)
    let done = 0
    for (const [at, event] of events.entries()) {
      if (cuts) cuts.cause = { seq: event.seq, did: event.did }
      const applied = applyEvent(rows, event, this.#making)
      if (applied === 'malformed') counts.malformed++
      else counts.applied++
      if (typeof applied === 'object' && isPassing(applied) && (lastOf.get(event.did) ?? 0) > at)
        waiting.set(event.did, applied)
      else if (typeof applied === 'object') {
        // After a marker there is nothing to hide, and what follows it is shown or not as the account is by then.
        waiting.delete(event.did)
        if (cuts) cuts.change = applied
        await writeChanges(batch, rows, cuts)
        await this.#change(batch, rows, applied, cuts)
        await rows.reload(batch, applied.did, events.slice(at + 1))
      }
      if (rows.isFull) await writeChanges(batch, rows, cuts)
      await settleWhenMuch(batch, rows, cuts)
      done++
      if (batch.rows - rowsBefore >= this.#bounds.transactionRows) break
      if (batch.isTurnOver()) await batch.turn()
    }
    await writeChanges(batch, rows, cuts)
    await this.#changeWaiting(batch, rows, waiting, cuts)
    await settle(batch, rows.affected, cuts)
    await cuts?.end()
    return done
  }

  /** All that has changed in memory must have been written. */
  async #changeWaiting(
    batch: Batch,
    rows: IndexRows,
    waiting: Map<Did, AccountChange>,
    cuts?: Cuts,
  ): Promise<void> {
    for (const [did, change] of waiting) {
      waiting.delete(did)
      await this.#change(batch, rows, change, cuts)
    }
  }

  /** Changes all rows of an account. Where these are many, and follow from the records alone, it is noted to be done. */
  async #change(batch: Batch, rows: IndexRows, change: AccountChange, cuts?: Cuts): Promise<void> {
    const { did } = change
    const { policy } = this.#making
    this.#turns.underWay.delete(did)
    const beside = cuts?.beside
    if (cuts === undefined || beside === undefined || !isPassing(change))
      return changeAccount(batch, rows, change, policy, cuts)
    const work = async (within: CutPoints): Promise<void> => {
      const own = new IndexRows(undefined, this.#bounds.noted)
      await changeAccount(batch, own, change, policy, within)
      await settleAll(batch, own.affected, within)
    }
    const isDone = !(await beside.isNoted(did)) && (await beside.isDone(work))
    if (!isDone) await beside.put(did, { change: change.change })
    cuts.change = undefined
    await cuts.cut()
  }

  /** How far the stream has spoken of an account, to be handed back to `setHostStatus`. */
  statusSeq(did: Did): Promise<bigint | undefined> {
    return this.#writer.write(async (batch) => {
      const [account] = await batch.load('accounts', [did], ['statusSeq'])
      return account?.statusSeq
    })
  }

  /**
   * Takes in what an account's host said about it. Without effect when the stream has spoken of the account since
   * `statusSeq` was read. True when it made a difference to what is shown.
   */
  setHostStatus(did: Did, statusSeq: bigint, hostStatus: string): Promise<boolean> {
    return this.#alone(async () => {
      await this.#finish()
      return this.#unfinishedUntilDone((batch) => this.#setHostStatusIn(batch, did, statusSeq, hostStatus))
    })
  }

  async #setHostStatusIn(batch: Batch, did: Did, statusSeq: bigint, hostStatus: string): Promise<boolean> {
    const [known] = await batch.load('accounts', [did])
    if (known === undefined || known.statusSeq !== statusSeq) return false
    const state = stateOf({ ...known, hostStatus }, known)
    await batch.put('accounts', [state])
    if (state.hidden === known.hidden) return false
    const rows = new IndexRows(undefined, this.#bounds.noted)
    const cuts = this.#cuts(batch, { seq: Number(statusSeq), did }, rows)
    const change = state.hidden === 1n ? 'hide' : 'show'
    await this.#change(batch, rows, { change, did }, cuts)
    await settle(batch, rows.affected, cuts)
    await cuts.end()
    return true
  }

  /** Makes rows again that earlier settings or forms of views have made; see `adopt`. */
  adopt(signal: AbortSignal): Promise<void> {
    return adopt(this.#writer, this.#making, signal)
  }
}

/** Reads the first of these events. @returns those that were read, and what they are as plain objects if they are not malformed */
async function readSome(
  batch: Batch,
  { read, bytesOf }: EventReader,
  events: readonly StreamEvent[],
): Promise<{ next: readonly StreamEvent[]; some: readonly StreamEvent[] }> {
  const some: StreamEvent[] = []
  let [bytes, count] = [0, 0]
  for (const view of events) {
    if (bytes >= bytesAtOnce) break
    bytes += bytesOf(view)
    count++
    const event = read(view)
    if (event !== undefined) some.push(event)
    if (batch.isTurnOver()) await batch.turn()
  }
  return { next: events.slice(0, count), some }
}

/**
 * Where the last `#account` event of each account is. One that hides or shows its records before that is not made at once:
 * it may cost seconds, and a host may send ten of them a second.
 */
function lastAccountEvents(events: readonly StreamEvent[]): Map<Did, number> {
  const last = new Map<Did, number>()
  for (const [at, { kind, did }] of events.entries()) if (kind === 'account') last.set(did, at)
  return last
}

/** Whether a later change of the same account may take its place, because it makes the same rows from the records alone. */
function isPassing(change: AccountChange): change is Extract<AccountChange, { change: 'hide' | 'show' }> {
  return change.change === 'hide' || change.change === 'show'
}

function newCounts(): FoldCounts {
  return { applied: 0, repeated: 0, malformed: 0, failed: [] }
}

function add(counts: FoldCounts, { applied, repeated, malformed, failed }: FoldCounts): void {
  counts.applied += applied
  counts.repeated += repeated
  counts.malformed += malformed
  counts.failed.push(...failed)
}
