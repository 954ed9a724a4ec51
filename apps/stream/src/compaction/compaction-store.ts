import { systemClock, type Clock } from '@tributary/lanes'
import type { RepoStates } from '../ingest/repo-states.ts'
import { type CommitAndSync, commitAndSync, type StateDatabase } from '../state-database.ts'

/** An account that was taken down, and when that was noted. */
export interface Takedown {
  did: string
  atMs: number
  /** Sealed segments up to here have none of its records; -1 when none was looked at. */
  lookedSeq: number
  /** The newest row when it was first looked for; 0 before that. The active segment may have some up to there. */
  upToSeq: number
  /** When it is tried again after a segment could not be rewritten; 0 when all could. Not stored. */
  againAtMs: number
}

/** How far the archive was compacted, and which takedowns have yet to leave it. */
export class CompactionStore {
  readonly #database: StateDatabase
  readonly #clock: Clock
  readonly #commit: CommitAndSync
  /** By account, in the order in which they were noted: each download asks for them. */
  readonly #takedowns = new Map<string, Takedown>()
  /** The same by `lookedSeq`. There are few of these: passes look through all that was sealed. */
  readonly #byLookedSeq = new Map<number, Set<Takedown>>()
  #revision = 0
  #compactedSeq: number

  constructor(database: StateDatabase, clock: Clock = systemClock, commit: CommitAndSync = commitAndSync) {
    this.#database = database
    this.#clock = clock
    this.#commit = commit
    const stored = database.prepare<[], Takedown>(
      `SELECT did, at_ms AS atMs, looked_seq AS lookedSeq, up_to_seq AS upToSeq, 0 AS againAtMs
       FROM pending_takedowns ORDER BY at_ms`,
    )
    for (const each of stored.all()) this.#put(each)
    const seq = database.prepare<[], number>('SELECT compacted_seq FROM compaction').pluck().get()
    this.#compactedSeq = seq ?? 0
  }

  /** Rows up to here supersede nothing any more. */
  get compactedSeq(): number {
    return this.#compactedSeq
  }

  async setCompactedSeq(seq: number): Promise<void> {
    const put = this.#database.prepare('INSERT OR REPLACE INTO compaction VALUES (1, ?)')
    await this.#commit(this.#database, () => put.run(seq))
    this.#compactedSeq = seq
  }

  /** The oldest first. */
  takedowns(): IteratorObject<Takedown> {
    return this.#takedowns.values()
  }

  /** Takedowns that were not looked for up to a seq. The others, which may be very many, are not passed over one by one. */
  *before(seq: number): Generator<Takedown, void> {
    for (const [lookedSeq, some] of this.#byLookedSeq) if (lookedSeq < seq) yield* some
  }

  /** How many these are. */
  countBefore(seq: number): number {
    let count = 0
    for (const [lookedSeq, some] of this.#byLookedSeq) if (lookedSeq < seq) count += some.size
    return count
  }

  /** Another one whenever a takedown was noted, or how far it was looked at. */
  get revision(): number {
    return this.#revision
  }

  /** Notes an account, together with the state that says it was taken down. */
  noteTakedown(states: Pick<RepoStates, 'alongside'>, did: string): void {
    const put = this.#database.prepare('INSERT OR REPLACE INTO pending_takedowns (did, at_ms) VALUES (?, ?)')
    const atMs = this.#clock.nowMs()
    const note = (): void => {
      // The newest is last.
      this.#delete(did)
      this.#put({ did, atMs, lookedSeq: -1, upToSeq: 0, againAtMs: 0 })
      this.#revision++
    }
    states.alongside(() => put.run(did, atMs), note)
  }

  /**
   * Notes how far takedowns were looked at. Those of whose records the active segment may hold some are kept, the others
   * are done. One that was noted again since stays as it is.
   */
  async notePass(takedowns: readonly Takedown[]): Promise<void> {
    const which = 'WHERE did = ? AND at_ms = ?'
    const remove = this.#database.prepare(`DELETE FROM pending_takedowns ${which}`)
    const update = this.#database.prepare(
      `UPDATE pending_takedowns SET looked_seq = ?, up_to_seq = ? ${which}`,
    )
    await this.#commit(this.#database, () => {
      for (const each of takedowns) {
        const { did, atMs, lookedSeq, upToSeq } = each
        if (isDone(each)) remove.run(did, atMs)
        else update.run(lookedSeq, upToSeq, did, atMs)
      }
    })
    for (const each of takedowns) {
      const { did, atMs } = each
      if (this.#takedowns.get(did)?.atMs !== atMs) continue
      if (isDone(each)) this.#delete(did)
      else this.#put(each)
    }
    this.#revision++
  }

  /** In the place of what there is of the account. */
  #put(takedown: Takedown): void {
    this.#leave(takedown.did)
    this.#takedowns.set(takedown.did, takedown)
    const { lookedSeq } = takedown
    const some = this.#byLookedSeq.get(lookedSeq) ?? new Set()
    this.#byLookedSeq.set(lookedSeq, some.add(takedown))
  }

  #delete(did: string): void {
    this.#leave(did)
    this.#takedowns.delete(did)
  }

  #leave(did: string): void {
    const takedown = this.#takedowns.get(did)
    if (!takedown) return
    const some = this.#byLookedSeq.get(takedown.lookedSeq)
    some?.delete(takedown)
    if (some?.size === 0) this.#byLookedSeq.delete(takedown.lookedSeq)
  }
}

/** Whether nothing of the account can be in the archive any more. */
function isDone({ lookedSeq, upToSeq }: Takedown): boolean {
  return upToSeq <= lookedSeq
}
