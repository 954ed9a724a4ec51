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
import { type IndexWriter, isStorageFault, parseDatetime, type Steps } from '@tributary/index-store'
import type { RecordViews } from '@tributary/record-view'
import type { AccountEvent, CommitEvent, Did, StreamEvent, SyncEvent } from '@tributary/protocol'
import { Accounts } from './accounts.ts'
import { Affected } from './affected.ts'
import { type FeedPolicy, FeedRows } from './feed-rows.ts'
import { FollowedStream } from './followed-stream.ts'
import { isReadable } from './readable.ts'
import { Records } from './records.ts'

/** What became of the events of one batch. */
export interface FoldCounts {
  applied: number
  /** At or below the cursor: seen before. */
  repeated: number
  /** Without what their kind needs; the index is as if they had not been sent. */
  malformed: number
  /** Events that the fold failed at, which is a defect of ours; the index is as if they had not been sent. */
  failed: readonly FoldFailure[]
}

export interface FoldFailure {
  seq: number
  did: Did
  error: unknown
}

export class Fold {
  readonly stream: FollowedStream
  readonly #connection: IndexWriter
  readonly #affected: Affected
  readonly #records: Records
  readonly #accounts: Accounts
  readonly #feedRows: FeedRows
  /** What the rows of records are made with besides the records. */
  readonly #making: string
  readonly #sql

  constructor(connection: IndexWriter, policy: FeedPolicy, views: RecordViews) {
    const { sqlite } = connection
    this.#connection = connection
    this.#making = JSON.stringify({ ...policy, views: views.version })
    this.stream = new FollowedStream(connection)
    this.#affected = new Affected(connection)
    this.#records = new Records(connection, this.#affected, views)
    this.#accounts = new Accounts(connection)
    this.#feedRows = new FeedRows(connection, policy)
    this.#sql = {
      making: sqlite.prepare<[], string>("select value from policies where name = 'making'").pluck(),
      setMaking: sqlite.prepare<[string]>(
        `insert into policies (name, value) values ('making', ?)
         on conflict (name) do update set value = excluded.value`,
      ),
    }
  }

  /**
   * Applies events of one source in order and moves its cursor to `cursor`, or to the last event if that is further.
   * Events at or below the cursor are passed over. On a fault of the database nothing of the batch has happened.
   */
  async apply(source: string, events: readonly StreamEvent[], cursor: number): Promise<FoldCounts> {
    try {
      return await this.#write(() => this.#applyAll(source, events, cursor, []))
    } catch (error) {
      if (isStorageFault(error)) throw error
      const failed: FoldFailure[] = []
      return this.#write(() => this.#applyAll(source, events, cursor, failed, failed))
    }
  }

  /** With `noted`, events that fail are taken back one by one and noted there. */
  *#applyAll(
    source: string,
    events: readonly StreamEvent[],
    cursor: number,
    failed: readonly FoldFailure[],
    noted?: FoldFailure[],
  ): Steps<FoldCounts> {
    const counts = { applied: 0, repeated: 0, malformed: 0, failed }
    const start = this.stream.cursor(source)
    let position = start
    const fresh: StreamEvent[] = []
    for (const event of events) {
      if (event.seq <= position) {
        counts.repeated++
        continue
      }
      position = event.seq
      fresh.push(event)
      const isApplied = yield* noted ? this.#applyApart(event, noted) : this.#applyEvent(event)
      if (isApplied === true) counts.applied++
      else if (isApplied === false) counts.malformed++
      yield
    }
    position = Math.max(position, cursor)
    if (position > start) this.stream.advance(source, position, fresh)
    return counts
  }

  /** Applies an event with a savepoint of its own. Undefined when it failed. */
  *#applyApart(event: StreamEvent, noted: FoldFailure[]): Steps<boolean | undefined> {
    const { sqlite } = this.#connection
    sqlite.exec('savepoint event')
    try {
      const isApplied = yield* this.#applyEvent(event)
      yield* this.#feedRows.settle(this.#affected)
      sqlite.exec('release event')
      return isApplied
    } catch (error) {
      if (isStorageFault(error)) throw error
      sqlite.exec('rollback to event; release event')
      noted.push({ seq: event.seq, did: event.did, error })
      this.#accounts.endTransaction()
      return undefined
    } finally {
      this.#affected.clear()
    }
  }

  /** How far the stream has spoken of an account, to be handed back to `setHostStatus`. */
  statusSeq(did: Did): bigint | undefined {
    const seq = this.#accounts.get(did)?.statusSeq
    this.#accounts.endTransaction()
    return seq
  }

  /**
   * Takes in what an account's host said about it. Without effect when the stream has spoken of the account since
   * `statusSeq` was read. True when it made a difference to what is shown.
   */
  setHostStatus(did: Did, statusSeq: bigint, hostStatus: string): Promise<boolean> {
    return this.#write(() => this.#setHostStatus(did, statusSeq, hostStatus))
  }

  *#setHostStatus(did: Did, statusSeq: bigint, hostStatus: string): Steps<boolean> {
    const known = this.#accounts.get(did)
    if (known === undefined || known.statusSeq !== statusSeq) return false
    const state = this.#accounts.put(did, { ...known, hostStatus })
    if (state.hidden === known.hidden) return false
    yield* this.#changeVisibility(did, state.hidden === 1n)
    return true
  }

  #write<T>(work: () => Steps<T>): Promise<T> {
    return this.#connection.write(() => this.#settled(work))
  }

  *#settled<T>(work: () => Steps<T>): Steps<T> {
    try {
      const result = yield* work()
      yield* this.#feedRows.settle(this.#affected)
      return result
    } finally {
      this.#affected.clear()
      this.#accounts.endTransaction()
    }
  }

  *#applyEvent(event: StreamEvent): Steps<boolean> {
    if (!isReadable(event)) return false
    switch (event.kind) {
      case 'commit':
        return event.operation === 'delete' ? this.#delete(event) : this.#put(event)
      case 'account':
        yield* this.#applyAccount(event)
        return true
      case 'identity':
        if (this.#accounts.get(event.did)?.isAuthor === 1n) this.#accounts.requestHandle(event.did, event.seq)
        return true
      case 'sync':
        return yield* this.#applySync(event)
    }
  }

  #put({ did, collection, rkey, rev, cid, record: value, time }: CommitEvent): boolean {
    const receivedAt = parseDatetime(time)
    if (cid === undefined || value === undefined || receivedAt === undefined) return false
    const account = this.#accounts.meet(did)
    const createdAt = parseDatetime(value['createdAt'])
    const record = this.#records.put({ did, collection, rkey, rev, cid, value, createdAt, receivedAt })
    if (record === undefined) return true
    if (account.hidden === 0n) this.#feedRows.show(record, value)
    return true
  }

  #delete({ did, collection, rkey }: CommitEvent): boolean {
    const removed = this.#records.remove(did, collection, rkey)
    if (removed !== undefined) this.#feedRows.remove(removed)
    return true
  }

  /**
   * A marker that the stream wrote itself (its upstream seq is 0) stands right before the present records of the account
   * and takes away what came before. One from upstream only announces that: the stream reads the repository again and
   * then writes its own marker. Until then what is stored is the best there is, and stays.
   */
  *#applySync({ did, time, sync }: SyncEvent): Steps<boolean> {
    const at = parseDatetime(time)
    if (at === undefined) return false
    if (sync.seq > 0 || this.#accounts.get(did) === undefined) return true
    yield* this.#records.supersede(did, at)
    yield* this.#feedRows.clear(did)
    return true
  }

  *#applyAccount({ did, seq, account }: AccountEvent): Steps<void> {
    const known = this.#accounts.get(did)
    const isAuthor = known?.isAuthor === 1n
    if (account.active && !isAuthor) {
      this.#accounts.forget(did)
      return
    }
    const status = account.active ? 'active' : (account.status ?? 'inactive')
    const isDeleted = status === 'deleted'
    const state = this.#accounts.put(did, {
      status,
      statusSeq: BigInt(seq),
      hostStatus: null,
      isAuthor: isAuthor && !isDeleted ? 1n : 0n,
    })
    if (!isAuthor) return
    if (isDeleted) {
      yield* this.#records.purge(did)
      yield* this.#feedRows.clear(did)
      this.#accounts.forgetHandle(did)
    } else if (state.hidden !== known.hidden) {
      yield* this.#changeVisibility(did, state.hidden === 1n)
    }
    if (account.active && known.status === 'deleted') this.#accounts.requestHandle(did, seq)
  }

  *#changeVisibility(did: Did, hidden: boolean): Steps<void> {
    yield* this.#affected.byAccount(did)
    yield* this.#feedRows.clear(did)
    if (hidden) return
    for (const { value, ...record } of this.#records.of(did)) {
      this.#feedRows.show(record, value)
      this.#affected.byRecord(record, undefined)
      yield
    }
  }

  /**
   * Prepares and classifies stored records again when the settings or the forms of views differ from those that their
   * rows were made with. Each page of records is a transaction of its own, and a walk that was interrupted begins again.
   * Until it is through, records that do not change show as they did.
   */
  async adopt(signal: AbortSignal): Promise<void> {
    if (this.#sql.making.get() === this.#making) return
    // Nothing is known of the rows until the walk is through, whatever settings the next start has.
    await this.#connection.writeAtOnce(() => this.#sql.setMaking.run(''))
    for (let after: string | undefined = ''; after !== undefined && !signal.aborted;) {
      const from: string = after
      after = await this.#write(() => this.#adoptPage(from))
    }
    if (!signal.aborted) await this.#connection.writeAtOnce(() => this.#sql.setMaking.run(this.#making))
  }

  /** Returns the address to go on from; undefined at the end. */
  *#adoptPage(after: string): Steps<string | undefined> {
    const { at, records } = this.#records.page(after)
    for (const { value, ...record } of records) {
      this.#records.prepare(record, value)
      if (this.#accounts.get(record.did)?.hidden !== 1n) this.#feedRows.show(record, value)
      yield
    }
    return at
  }
}
