/**
 * Folds the events of the stream into the index database.
 *
 * What must hold: a batch and its cursor are one transaction, so an event takes effect exactly once however often it
 * arrives; the result depends on the order of the events only, not on how they were cut into batches; and the rows a
 * feed reads are, after every transaction, a function of the visible records. A transaction goes over as many turns of
 * the event loop as it needs, so that no event holds up other work however much rests on it. An event that the fold cannot handle costs
 * that event alone; only a fault of the database is thrown. Network and clocks are elsewhere: times are those of the
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
import { FollowedStream } from './followed-stream.ts'
import { IndexRows } from './index-rows.ts'
import { prepareView } from './records.ts'
import { settle } from './settle.ts'

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

export class Fold {
  readonly stream: FollowedStream
  readonly #writer: IndexWriter
  readonly #making: Making
  readonly #earlier: EarlierPlaces | undefined

  /** @param earlier what is known of records from an index that this one is to take the place of */
  constructor(writer: IndexWriter, policy: FeedPolicy, views: RecordViews, earlier?: EarlierPlaces) {
    this.#writer = writer
    this.#earlier = earlier
    this.#making = { policy, views }
    this.stream = new FollowedStream(writer)
  }

  /**
   * Applies events of one source in order and moves its cursor to `cursor`, or to the last event if that is further.
   * Events at or below the cursor are passed over. On a fault of the database nothing of the batch has happened.
   */
  async apply(source: string, events: readonly StreamEvent[], cursor: number): Promise<FoldCounts> {
    try {
      return await this.#applyAll(source, events, cursor, 'together')
    } catch (error) {
      if (error instanceof IndexStorageError) throw error
      return this.#applyAll(source, events, cursor, 'apart')
    }
  }

  /** With `apart`, events that fail are taken back one by one and noted. */
  #applyAll(
    source: string,
    events: readonly StreamEvent[],
    cursor: number,
    how: 'together' | 'apart',
  ): Promise<FoldCounts> {
    return this.#writer.write(async (batch) => {
      const counts: FoldCounts = { applied: 0, repeated: 0, malformed: 0, failed: [] }
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
      if (how === 'together') await this.#applySome(batch, fresh, counts)
      else for (const event of fresh) await this.#applyApart(batch, event, counts)
      position = Math.max(position, cursor)
      if (position > start) await this.stream.advance(batch, source, position, fresh)
      return counts
    })
  }

  async #applyApart(batch: Batch, event: StreamEvent, counts: FoldCounts): Promise<void> {
    const own: FoldCounts = { applied: 0, repeated: 0, malformed: 0, failed: [] }
    try {
      await batch.savepoint(() => this.#applySome(batch, [event], own))
      counts.applied += own.applied
      counts.malformed += own.malformed
    } catch (error) {
      if (error instanceof IndexStorageError) throw error
      counts.failed.push({ seq: event.seq, did: event.did, error })
    }
  }

  async #applySome(batch: Batch, events: readonly StreamEvent[], counts: FoldCounts): Promise<void> {
    const rows = new IndexRows(this.#earlier)
    await rows.load(batch, events)
    for (const [at, event] of events.entries()) {
      const applied = applyEvent(rows, event, this.#making)
      if (applied === 'malformed') counts.malformed++
      else counts.applied++
      if (typeof applied === 'object') {
        await rows.flush(batch)
        await changeAccount(batch, rows, applied, this.#making.policy)
        await rows.reload(batch, applied.did, events.slice(at + 1))
      }
      if (rows.isFull) await rows.flush(batch)
      if (batch.isTurnOver()) await batch.turn()
    }
    await rows.flush(batch)
    await settle(batch, rows.affected)
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
      const rows = new IndexRows()
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
