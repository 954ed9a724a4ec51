/**
 * Keeps the stored state behind the log: changes queue up in seq order, and only those that are durable in the log are
 * written, together with the sources' cursors and the seq they stand for.
 */
import type { Did } from '@tributary/protocol'
import type { Source } from '../sources/source.ts'
import type { Account } from './account.ts'
import type { AccountChange, StateStore } from './state-store.ts'

const flushMs = 250
const flushChanges = 1000
const none: readonly string[] = []

export class StateTrail {
  readonly #store: StateStore
  readonly #sources: () => Iterable<Source>
  readonly #timer: NodeJS.Timeout
  #changes: AccountChange[] = []
  #collections: { seq: number; did: Did; collection: string }[] = []
  #durableSeq: number

  constructor(store: StateStore, sources: () => Iterable<Source>) {
    this.#store = store
    this.#sources = sources
    this.#durableSeq = store.appliedSeq
    this.#timer = setInterval(() => this.flush(), flushMs).unref()
  }

  /** Notes an account as the record just appended leaves it. Records come in seq order. */
  push(seq: number, account: Account, newCollections: readonly string[] = none): void {
    const { did, sourceId, upstreamStatus, localStatus, throttledAtMs, rev, commit, data } = account
    const { isDesynchronized, isIncomplete } = account
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
    })
    for (const collection of newCollections) this.#collections.push({ seq, did, collection })
  }

  /** The log is durable up to here: cursors may pass what is in it. */
  durable(seq: number): void {
    this.#durableSeq = seq
    if (this.#changes.length >= flushChanges && !this.#store.isWriting) this.flush()
  }

  /** Writes what is durable. Nothing is written when nothing has moved. */
  flush(): void {
    const sources = [...this.#sources()].filter((source) => source.advance(this.#durableSeq))
    const firstLater = this.#changes.findIndex(({ seq }) => seq > this.#durableSeq)
    const durable = firstLater < 0 ? this.#changes : this.#changes.slice(0, firstLater)
    if (durable.length === 0 && sources.length === 0) return
    this.#changes = firstLater < 0 ? [] : this.#changes.slice(firstLater)
    const collections = this.#collections.filter(({ seq }) => seq <= this.#durableSeq)
    this.#collections = this.#collections.slice(collections.length)
    const latest = new Map(durable.map((change) => [change.did, change]))
    this.#store.write({
      appliedSeq: this.#durableSeq,
      accounts: [...latest.values()],
      collections,
      sources: sources.map((source) => source.stored(this.#durableSeq)),
    })
  }

  /** Stores sources as they are now, whether they moved or not: after one was added or began a new epoch. */
  storeSources(sources: Source[]): void {
    this.flush()
    this.#store.write({
      appliedSeq: this.#durableSeq,
      accounts: [],
      collections: [],
      sources: sources.map((source) => source.stored(this.#durableSeq)),
    })
  }

  close(): void {
    clearInterval(this.#timer)
    this.flush()
  }
}
