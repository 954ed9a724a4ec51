/**
 * Folds the events of the stream into the index database.
 *
 * What must hold: events and the cursor after them are one transaction, so an event takes effect exactly once however often
 * it arrives; the result depends on the order of the events only, not on how they were cut into batches and transactions;
 * and the rows a feed reads are, after every transaction, a function of the visible records. A transaction ends with the
 * event that makes it large, so that other writers wait for one event at most, and goes over as many turns of the event
 * loop as it needs. An event that the fold cannot handle costs that event alone; only a fault of the database is thrown. Network and clocks are elsewhere: times are those of the
 * events.
 */
import { type Batch, IndexStorageError, type IndexWriter } from '@tributary/index-store'
import type { Did, StreamEvent } from '@tributary/protocol'
import type { RecordViews } from '@tributary/record-view'
import { changeAccount, readStored } from './account-changes.ts'
import { stateOf } from './accounts.ts'
import { applyEvent, type Making } from './apply-event.ts'
import type { EarlierPlaces } from './earlier-places.ts'
import { type FeedPolicy, show } from './feed-rows.ts'
import { eventsRemembered, FollowedStream } from './followed-stream.ts'
import { IndexRows, notedMax } from './index-rows.ts'
import { prepareView } from './records.ts'
import { settle, settleWhenMuch, writeChanges } from './settle.ts'

/** How much the fold does at once. */
interface FoldBounds {
  /** Rows that statements of events at once are about before their transaction ends with the event it is at. */
  readonly transactionRows: number
  /** So much may be noted before it is settled. */
  readonly noted: number
}

/** Events whose rows are loaded, changed and written together. More gain little, and their records are in memory. */
const eventsAtOnce = 2000
/** So many events that each concern one record have fewer rows: any number of them is one transaction. */
const boundsDefault: FoldBounds = { transactionRows: 50_000, noted: notedMax }

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

type ReadEvent = (event: StreamEvent) => StreamEvent | undefined

/** What `apply` was given. */
interface Given {
  readonly source: string
  readonly events: readonly StreamEvent[]
  readonly cursor: number
  readonly read: ReadEvent
}

export class Fold {
  readonly stream: FollowedStream
  readonly #writer: IndexWriter
  readonly #making: Making
  readonly #earlier: EarlierPlaces | undefined
  readonly #bounds: FoldBounds

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
   * @param read gives an event as a plain object when its turn comes, so that not all of them need memory; undefined if it
   *   is malformed
   */
  async apply(
    source: string,
    events: readonly StreamEvent[],
    cursor: number,
    read: ReadEvent = (event) => event,
  ): Promise<FoldCounts> {
    const counts = newCounts()
    for (let rest: readonly StreamEvent[] | undefined = events; rest !== undefined;)
      rest = await this.#applyFirst({ source, events: rest, cursor, read }, counts)
    return counts
  }

  /** One transaction: all events, or the first of them if those touch many rows. Returns the others; undefined without any. */
  async #applyFirst(given: Given, counts: FoldCounts): Promise<readonly StreamEvent[] | undefined> {
    const own = newCounts()
    try {
      return await this.#transaction(given, own, (batch, events) => this.#applySome(batch, events, own))
    } catch (error) {
      if (error instanceof IndexStorageError) throw error
      Object.assign(own, newCounts())
      return await this.#transaction(given, own, (batch, events) => this.#applyApart(batch, events, own))
    } finally {
      add(counts, own)
    }
  }

  /** @param apply gives how many of the events were applied: the transaction may be full before all are. */
  #transaction(
    { source, events, cursor, read }: Given,
    counts: FoldCounts,
    apply: (batch: Batch, events: readonly StreamEvent[]) => Promise<number>,
  ): Promise<readonly StreamEvent[] | undefined> {
    return this.#writer.write(async (batch) => {
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
      let newest: readonly StreamEvent[] = []
      for (let isFull = false; done < fresh.length && !isFull;) {
        const next = fresh.slice(done, done + eventsAtOnce)
        const some = next.flatMap((event) => read(event) ?? [])
        const applied = await apply(batch, some)
        newest = [...newest, ...some.slice(0, applied)].slice(-eventsRemembered)
        const first = some[applied]
        const through = first === undefined ? next.length : next.findIndex(({ seq }) => seq === first.seq)
        counts.malformed += through - applied
        done += through
        isFull = first !== undefined
      }
      const rest = fresh.slice(done)
      if (rest.length > 0) position = fresh[done - 1]?.seq ?? start
      else position = Math.max(position, cursor)
      if (position > start) await this.stream.advance(batch, source, position, newest)
      return rest.length > 0 ? rest : undefined
    })
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
  async #applySome(batch: Batch, events: readonly StreamEvent[], counts: FoldCounts): Promise<number> {
    const rows = new IndexRows(this.#earlier, this.#bounds.noted)
    const rowsBefore = batch.rows
    await rows.load(batch, events)
    let done = 0
    for (const [at, event] of events.entries()) {
      const applied = applyEvent(rows, event, this.#making)
      if (applied === 'malformed') counts.malformed++
      else counts.applied++
      if (typeof applied === 'object') {
        await writeChanges(batch, rows)
        await changeAccount(batch, rows, applied, this.#making.policy)
        await rows.reload(batch, applied.did, events.slice(at + 1))
      }
      if (rows.isFull) await writeChanges(batch, rows)
      await settleWhenMuch(batch, rows)
      done++
      if (batch.rows - rowsBefore >= this.#bounds.transactionRows) break
      if (batch.isTurnOver()) await batch.turn()
    }
    await writeChanges(batch, rows)
    await settle(batch, rows.affected)
    return done
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
    return this.#writer.write(async (batch) => {
      const [known] = await batch.load('accounts', [did])
      if (known === undefined || known.statusSeq !== statusSeq) return false
      const state = stateOf({ ...known, hostStatus }, known)
      await batch.put('accounts', [state])
      if (state.hidden === known.hidden) return false
      const rows = new IndexRows(undefined, this.#bounds.noted)
      await changeAccount(
        batch,
        rows,
        { change: state.hidden === 1n ? 'hide' : 'show', did },
        this.#making.policy,
      )
      await settle(batch, rows.affected)
      return true
    })
  }

  /**
   * Prepares and classifies stored records again when the settings or the forms of views differ from those that their
   * rows were made with. Each page of records is a transaction of its own, and a walk that was interrupted begins again.
   * Until it is through, records that do not change show as they did.
   */
  async adopt(signal: AbortSignal): Promise<void> {
    const { policy, views } = this.#making
    const making = JSON.stringify({ ...policy, views: views.version })
    const madeWith = await this.#writer.write((batch) => batch.load('policies', ['making']))
    if (madeWith[0]?.value === making) return
    const note = (value: string): Promise<void> =>
      this.#writer.write((batch) => batch.put('policies', [{ name: 'making', value }]))
    // Nothing is known of the rows until the walk is through, whatever settings the next start has.
    await note('')
    for (let after: string | undefined = ''; after !== undefined && !signal.aborted;) {
      const from: string = after
      after = await this.#writer.write((batch) => this.#adoptPage(batch, from))
    }
    if (!signal.aborted) await note(making)
  }

  /** Returns the address to go on from; undefined at the end. */
  async #adoptPage(batch: Batch, after: string): Promise<string | undefined> {
    const { policy, views } = this.#making
    const addresses = await batch.accounts.recordAddresses(after)
    const wanted = addresses.filter(({ collection }) => views.collections.has(collection))
    const rows = new IndexRows()
    for await (const page of batch.accounts.recordsAt(wanted.map(({ uri }) => uri))) {
      const records = page.map(readStored)
      await rows.accounts.load(
        batch,
        records.map(({ did }) => did),
      )
      for (const { value, ...record } of records) {
        prepareView(rows, { ...record, value }, views)
        if (rows.accounts.get(record.did)?.hidden !== 1n) show(rows, record, value, policy)
        if (batch.isTurnOver()) await batch.turn()
      }
      await rows.flush(batch)
    }
    return addresses.at(-1)?.uri
  }
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
