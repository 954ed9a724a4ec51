/**
 * Keeps the stored state behind the log: changes queue up in seq order, and only those that are durable in the log are
 * written, together with the sources' cursors and the seq they stand for.
 */
import type { Did } from '@tributary/protocol'
import { systemClock, type Clock } from '../clock.ts'
import type { Source } from '../sources/source.ts'
import type { Account } from './account.ts'
import type { AccountChange, StateStore } from './state-store.ts'

const flushMs = 250
const flushChanges = 1000
/** Changes that wait for the log or the database, above which no more should come: some 30 MB. */
const changesMax = 100_000
const none: readonly string[] = []

export class StateTrail {
  readonly #store: StateStore
  readonly #sources: () => Iterable<Source>
  readonly #timer: Disposable
  #changes: AccountChange[] = []
  #collections: { seq: number; did: Did; collection: string }[] = []
  /** Sources to be stored with the next write, whether they moved or not. */
  readonly #noted = new Set<Source>()
  #durableSeq: number

  constructor(store: StateStore, sources: () => Iterable<Source>, clock: Clock = systemClock) {
    this.#store = store
    this.#sources = sources
    this.#durableSeq = store.appliedSeq
    this.#timer = clock.every(flushMs, () => this.flush())
    store.onWritten(() => {
      if (this.#noted.size > 0 || this.#changes.length >= flushChanges) this.flush()
    })
  }

  /** Called after every write. */
  onWritten(listener: () => void): void {
    this.#store.onWritten(listener)
  }

  /** The database does not keep up. */
  get isFull(): boolean {
    return this.#changes.length > changesMax
  }

  /** Notes an account as the record just appended leaves it. Records come in seq order. */
  push(seq: number, account: Account, newCollections: readonly string[] = none): void {
    const { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, commit, data } = account
    const { isDesynchronized, isIncomplete, activeNote, breaks } = account
    this.#changes.push({
      seq,
      did,
      sourceId,
      upstreamStatus,
      localStatus,
      throttledAtMs,
      rev,
      commit,
      data,
      isDesynchronized,
      isIncomplete,
      rare: activeNote || breaks ? { activeNote, breaks: breaks && { ...breaks } } : undefined,
    })
    for (const collection of newCollections) this.#collections.push({ seq, did, collection })
  }

  /** The log is durable up to here: cursors may pass what is in it. */
  durable(seq: number): void {
    this.#durableSeq = seq
    if (this.#changes.length >= flushChanges) this.flush()
  }

  /** Writes what is durable, after the write that is under way. Nothing is written when nothing has moved. */
  flush(): void {
    if (this.#store.isWriting) return
    const moved = [...this.#sources()].filter((source) => source.advance(this.#durableSeq))
    const sources = new Set([...moved, ...this.#noted])
    const firstLater = this.#changes.findIndex(({ seq }) => seq > this.#durableSeq)
    const durable = firstLater < 0 ? this.#changes : this.#changes.slice(0, firstLater)
    const { identities } = this.#store
    if (durable.length + sources.size + identities.size === 0) return
    this.#noted.clear()
    this.#changes = firstLater < 0 ? [] : this.#changes.slice(firstLater)
    const collections = this.#collections.filter(({ seq }) => seq <= this.#durableSeq)
    this.#collections = this.#collections.slice(collections.length)
    const latest = new Map(durable.map((change) => [change.did, change]))
    this.#store.write({
      appliedSeq: this.#durableSeq,
      accounts: [...latest.values()],
      collections,
      sources: Array.from(sources, (source) => source.stored(this.#durableSeq)),
      identities: identities.take(),
    })
  }

  /** Stores a source as it is at the next write, whether it moved or not: after it was added or began a new epoch. */
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

  /** Hands everything that is durable to the database. */
  async close(): Promise<void> {
    this.#timer[Symbol.dispose]()
    await this.#store.whenWritten()
    this.flush()
  }
}
