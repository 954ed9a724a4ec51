import type { IndexWriter } from '@tributary/index-store'
import type { Did, Handle } from '@tributary/protocol'

export interface HandleRequest {
  did: Did
  /** The identity event that asked, 0 for an account met for the first time. */
  seq: bigint
  attempts: bigint
}

/** The durable queue of handles to look up. The fold puts requests in; times are microseconds since 1970. */
export class HandleRequests {
  readonly #connection
  readonly #sql

  constructor(connection: IndexWriter) {
    const { sqlite } = connection
    this.#connection = connection
    this.#sql = {
      due: sqlite.prepare<[bigint, bigint], HandleRequest>(
        'select did, seq, attempts from handleRequests where dueAt <= ? order by dueAt limit ?',
      ),
      nextDueAt: sqlite.prepare<[], bigint | null>('select min(dueAt) from handleRequests').pluck(),
      count: sqlite.prepare<[], bigint>('select count(*) from handleRequests').pluck(),
      finish: sqlite.prepare<[string, bigint]>('delete from handleRequests where did = ? and seq = ?'),
      postpone: sqlite.prepare<[bigint, string, bigint]>(
        'update handleRequests set attempts = attempts + 1, dueAt = ? where did = ? and seq = ?',
      ),
      put: sqlite.prepare<[string, string]>(
        'insert into handles (did, handle) values (?, ?) on conflict (did) do update set handle = excluded.handle',
      ),
      remove: sqlite.prepare<[string]>('delete from handles where did = ?'),
    }
  }

  due(now: bigint, limit: number): HandleRequest[] {
    return this.#sql.due.all(now, BigInt(limit))
  }

  /** When the next request may be worked on; undefined without requests. */
  nextDueAt(): bigint | undefined {
    return this.#sql.nextDueAt.get() ?? undefined
  }

  count(): number {
    return Number(this.#sql.count.get())
  }

  /**
   * Stores what was found; no handle removes the one that was known. Without effect when the request was withdrawn or
   * renewed meanwhile: the account is gone, or the answer may be older than what made it be asked again.
   */
  async finish({ did, seq }: HandleRequest, handle: Handle | undefined): Promise<void> {
    await this.#connection.writeAtOnce(() => {
      if (this.#sql.finish.run(did, seq).changes === 0) return
      if (handle === undefined) this.#sql.remove.run(did)
      else this.#sql.put.run(did, handle)
    })
  }

  async postpone({ did, seq }: HandleRequest, dueAt: bigint): Promise<void> {
    await this.#connection.writeAtOnce(() => this.#sql.postpone.run(dueAt, did, seq))
  }
}
