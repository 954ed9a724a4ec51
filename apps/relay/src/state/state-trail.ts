/**
 * Keeps the stored state after the log: every four seconds at most, it cuts the state as it is after the newest record.
 * When that record is durable in the log, the cut is written, together with the sources' cursors and the seq of the
 * record.
 *
 * Always holds: what is written is the state after exactly the records up to its seq, and marks from then. A later
 * state must not be written with it. Folding the log gives the same accounts twice, but it would take the mark of an
 * account for answered by a `#sync` that came before the mark.
 */
import type { Did } from '@tributary/protocol'
import { systemClock, type Clock } from '../clock.ts'
import type { Source } from '../sources/source.ts'
import type { PackedAccounts } from './account-row.ts'
import type { Account } from './account.ts'
import type { StateStore } from './state-store.ts'
import type { StateWrite } from './state-write.ts'

/**
 * An account is written every four seconds at most. What comes after a pause is written at the next look. A busy account
 * costs 10 to 60 us each time. After a crash, the events of so long are folded again and asked of the sources again.
 */
const lookEveryMs = 250
const looksPerWrite = 16
/** Changes that wait for the log or the database, above which no more should come: some 15 MB. */
const changesMax = 100_000
/** Events since the last cut, above which no more should come: some 15 MB, and as much for a cut that is not written yet. */
const receivedMax = 100_000
/**
 * How often sources that are read are stored although nothing moved. After a kill, a source that sends nothing looks
 * behind by so long at most.
 */
const storeReadEveryMs = 50_000
const none: readonly string[] = []

/** The state after a record. */
interface Cut {
  seq: number
  /** Accounts that are not to be stored any more, unless they are among `accounts`. */
  forgotten: Did[]
  /** What comes later stands for what came before. */
  accounts: PackedAccounts[]
  collections: StateWrite['collections']
  /** Events that sources sent since the cut before. */
  received: number
}

export class StateTrail {
  readonly #store: StateStore
  readonly #sources: () => Iterable<Source>
  readonly #timers = new DisposableStack()
  /** Rows of the accounts that changed since the last cut. */
  #changed = new Set<number>()
  #collections: Cut['collections'] = []
  /** How many collections these are. */
  #collectionCount = 0
  /** Events that sources sent since the last cut. Each is remembered until a cut is written that its cursor goes with. */
  #received = 0
  /** Accounts that no source has spoken for, and that are stored or will be. */
  readonly #strangers: Set<Did>
  /** Strangers that were forgotten since the last cut. */
  #forgotten: Did[] = []
  /** Sources to be stored with the next write, whether they moved or not. */
  readonly #noted = new Set<Source>()
  /** It waits until its record is durable. */
  #cut: Cut | undefined
  /** Until the next write. */
  #looksLeft = 1
  #pushedSeq: number
  #durableSeq: number

  constructor(store: StateStore, sources: () => Iterable<Source>, clock: Clock = systemClock) {
    this.#store = store
    this.#sources = sources
    this.#pushedSeq = this.#durableSeq = store.appliedSeq
    this.#strangers = new Set(Array.from(store.accounts.strangers, ({ did }) => did))
    this.#timers.use(
      clock.every(lookEveryMs, () => {
        if (--this.#looksLeft <= 0 || this.isFull) this.flush()
      }),
    )
    this.#timers.use(
      clock.every(storeReadEveryMs, () => {
        for (const source of sources()) if (source.reading.isOpen) this.#noted.add(source)
      }),
    )
    store.onWritten(() => {
      if (this.#noted.size > 0 || this.isFull) this.flush()
      else this.#write()
    })
  }

  /** The newest record that it was told of. A log without records leaves out seqs as well, which never become durable. */
  get newestSeq(): number {
    return this.#pushedSeq
  }

  /** Called after every write. */
  onWritten(listener: () => void): void {
    this.#store.onWritten(listener)
  }

  /** The database does not keep up. */
  get isFull(): boolean {
    const changes = this.#changed.size + this.#collectionCount + this.#forgotten.length
    return changes > changesMax || this.#received > receivedMax
  }

  /** Notes that a source has sent an event. Not amid a change. */
  receive(): void {
    if (++this.#received > receivedMax) this.flush()
  }

  /**
   * Notes that an account is now what the record just appended makes it, or that it was marked.
   * @param seq of the record. The newest one is enough for a mark.
   */
  push(seq: number, account: Account, newCollections: readonly string[] = none): void {
    this.pass(seq)
    const isStranger = account.sourceId === 0
    if (isStranger) this.#strangers.add(account.did)
    else this.#strangers.delete(account.did)
    // No record came since the cut, or the seq would be newer: this belongs to it.
    const isOfCut = this.#cut !== undefined && seq <= this.#cut.seq
    if (isOfCut) this.#cut?.accounts.push(this.#store.accounts.pack(new Set([account.row])))
    // The next cut may forget who had the name before.
    if (!isOfCut || isStranger) this.#changed.add(account.row)
    // The account may be active again when it is written.
    if (account.upstreamStatus === 'deleted') this.#noteCollections(undefined, account, 1)
    const { length } = newCollections
    if (length > 0) this.#noteCollections(newCollections.join(' '), account, length)
  }

  /** Notes that an account without a source is about to be forgotten: hosts may name as many as they like. */
  forget({ did }: Account): void {
    if (this.#strangers.delete(did)) this.#forgotten.push(did)
  }

  /** Notes that the log has a record, which may change nothing. Records come in seq order. */
  pass(seq: number): void {
    if (seq > this.#pushedSeq) this.#pushedSeq = seq
  }

  /** The log is durable up to here: cursors may pass what is in it. */
  durable(seq: number): void {
    this.#durableSeq = seq
    if (this.isFull) this.flush()
    else this.#write()
  }

  /** Cuts the state, unless the last cut still waits, and writes it as soon as it is durable. Not amid a change. */
  flush(): void {
    if (this.#store.isWriting) return
    if (!this.#cut) {
      const accounts = this.#changed.size > 0 ? [this.#store.accounts.pack(this.#changed)] : []
      const [seq, forgotten, collections] = [this.#pushedSeq, this.#forgotten, this.#collections]
      this.#cut = { seq, forgotten, accounts, collections, received: this.#received }
      this.#changed = new Set()
      this.#forgotten = []
      this.#collections = []
      this.#collectionCount = 0
      this.#received = 0
    }
    this.#write()
  }

  /** Stores a source as it is at the next write, whether it moved or not: after it began a new epoch or was moved on. */
  storeSource(source: Source): void {
    this.#noted.add(source)
    this.flush()
  }

  /** Resolves when the database has kept up with changes that are all durable in the log. */
  async whenRoom(): Promise<void> {
    while (this.isFull) {
      this.flush()
      await this.#store.whenWritten()
    }
  }

  /** Hands everything to the database. All of it is durable in the log. */
  async close(): Promise<void> {
    this.#timers.dispose()
    // Their lag counts from this stop when they were caught up.
    for (const source of this.#sources()) if (source.isWanted && source.wasRead) this.#noted.add(source)
    await this.#store.whenWritten()
    this.flush()
  }

  #noteCollections(names: string | undefined, { did }: Account, count: number): void {
    this.#collections.push([names, did])
    this.#collectionCount += count
  }

  /**
   * Writes the cut when it is durable, after the write that is under way. When nothing has moved, nothing is written but
   * what makes the stored state synced.
   */
  #write(): void {
    const cut = this.#cut
    if (!cut || cut.seq > this.#durableSeq || this.#store.isWriting) return
    this.#cut = undefined
    const { seq, forgotten, accounts, collections, received } = cut
    const moved = [...this.#sources()].filter((source) => source.advance(seq))
    const sources = new Set([...moved, ...this.#noted])
    const changes = accounts.length + forgotten.length + collections.length + sources.size
    // After so many events somebody waits to hear of a write.
    const isAwaited = received > receivedMax
    if (changes + this.#store.identities.size === 0 && this.#store.isSynced && !isAwaited) return
    this.#noted.clear()
    // What is noted of its losses belongs to a newer record, and no event may move it any more.
    for (const source of sources) if (source.lossDoneBy > seq) this.#noted.add(source)
    this.#looksLeft = looksPerWrite
    this.#store.write({
      appliedSeq: seq,
      forgotten,
      accounts,
      collections,
      sources: Array.from(sources, (source) => source.stored(seq)),
      identities: this.#store.takeIdentities(),
    })
  }
}
