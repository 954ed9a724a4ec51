import type { RepoStates } from '../ingest/repo-states.ts'
import type { StateDatabase } from '../state-database.ts'

interface Seen {
  count: number
  sinceMs: number
}

export interface RereadsOptions {
  database: StateDatabase
  states: Pick<RepoStates, 'alongside'>
  /** How often one repository may be read within a window. */
  max: number
  windowMs: number
}

/**
 * Counts how often a repository was read again. The count is stored together with the state that says so, so that neither
 * a restart nor a kill begins it again.
 */
export class Rereads {
  readonly #options: RereadsOptions
  /** Counts that no save has taken yet. */
  readonly #unsaved = new Map<string, Seen>()
  readonly #select
  readonly #put
  readonly #drop
  readonly #dropOld

  constructor(options: RereadsOptions) {
    const { database } = options
    this.#options = options
    this.#select = database.prepare<[string], Seen>(
      'SELECT count, since_ms AS sinceMs FROM rereads WHERE did = ?',
    )
    this.#put = database.prepare('INSERT OR REPLACE INTO rereads VALUES (?, ?, ?)')
    this.#drop = database.prepare('DELETE FROM rereads WHERE did = ?')
    // A count that is added takes two old ones away. To delete all that a busy day left would hold the event loop.
    this.#dropOld = database.prepare(
      `DELETE FROM rereads WHERE did IN (SELECT did FROM rereads WHERE since_ms <= ? ORDER BY since_ms LIMIT 2)`,
    )
  }

  /** Milliseconds until the repository may be read once more; 0 when it may be now. Counts nothing. */
  waitMs(did: string, nowMs: number): number {
    const { max, windowMs } = this.#options
    const seen = this.#inWindow(did, nowMs)
    return seen && seen.count >= max ? seen.sinceMs + windowMs - nowMs : 0
  }

  /** The repository was read once more. */
  take(did: string, nowMs: number): void {
    const { states, windowMs } = this.#options
    const { count, sinceMs } = this.#inWindow(did, nowMs) ?? { count: 0, sinceMs: nowMs }
    const seen = { count: count + 1, sinceMs }
    this.#unsaved.set(did, seen)
    states.alongside(
      () => {
        this.#dropOld.run(nowMs - windowMs)
        // Another one may have come since, or the operator began the count again.
        const newest = this.#unsaved.get(did)
        if (newest) this.#put.run(did, newest.count, newest.sinceMs)
      },
      () => {
        if (this.#unsaved.get(did) === seen) this.#unsaved.delete(did)
      },
    )
  }

  /** The count of the repository begins again. */
  forget(did: string): void {
    this.#unsaved.delete(did)
    this.#drop.run(did)
  }

  #inWindow(did: string, nowMs: number): Seen | undefined {
    const seen = this.#unsaved.get(did) ?? this.#select.get(did)
    // What was noted for a later day was noted before the clock was set back.
    return seen && Math.abs(nowMs - seen.sinceMs) < this.#options.windowMs ? seen : undefined
  }
}
