/** What waits for its time: handles to look up, accounts to ask about, places to forget. Times are microseconds since 1970. */
import type { Did } from '@tributary/protocol'
import { sql } from 'kysely'
import type { AccountsTable, HandleRequestsTable } from '../schema.ts'
import type { WriteSession } from '../session.ts'

/** Places that one statement forgets. */
const placesPerStep = 500

export class Queues {
  readonly #session: WriteSession

  constructor(session: WriteSession) {
    this.#session = session
  }

  /** The handles that may be looked up now, those that waited longest first. */
  dueHandles(now: bigint, limit: number): Promise<HandleRequestsTable[]> {
    return this.#session.all(sql<HandleRequestsTable>`
      select "did", "seq", "attempts", "dueAt" from "handleRequests" where "dueAt" <= ${now}
      order by "dueAt" limit ${limit}`)
  }

  /** When the next handle may be looked up; undefined when none is to be. */
  async nextHandleDueAt(): Promise<bigint | undefined> {
    const [row] = await this.#session.all(
      sql<{ dueAt: bigint | null }>`select min("dueAt") as "dueAt" from "handleRequests"`,
    )
    return row?.dueAt ?? undefined
  }

  /** Authors whose host was last asked before this time, those that waited longest first. */
  async accountsToCheck(before: bigint, limit: number): Promise<Did[]> {
    const rows = await this.#session.all(sql<Pick<AccountsTable, 'did'>>`
      select "did" from "accounts" where "isAuthor" = 1 and "status" <> 'deleted' and "checkedAt" < ${before}
      order by "checkedAt" limit ${limit}`)
    return rows.map(({ did }) => did)
  }

  /** Forgets places of records that were taken away before this time, some at a time. False when there was none. */
  async forgetSomePlaces(before: bigint): Promise<boolean> {
    const forgotten = await this.#session.all(sql`delete from "superseded" where "uri" in
      (select "uri" from "superseded" where "supersededAt" < ${before} limit ${placesPerStep}) returning "uri"`)
    return forgotten.length > 0
  }
}
