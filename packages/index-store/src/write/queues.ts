/**
 * What waits for its time: handles to look up, accounts to ask about, places to forget, rows to be made again. Times are
 * microseconds since 1970.
 */
import type { Did } from '@tributary/protocol'
import { type RawBuilder, sql } from 'kysely'
import type { AccountsTable, HandleRequestsTable, RemakesTable } from '../schema.ts'
import type { WriteSession } from '../session.ts'

/** Places that one statement forgets. */
const placesPerStep = 500
/** An author whose rows could not be made again so often is left alone until the next start. */
const remakeFailuresMax = 3
/** No request for a handle waits longer: two days. */
const handleWaitMax = 172_800_000_000n

export interface AccountsToCheck {
  readonly before: bigint
  readonly now: bigint
  readonly limit: number
}

export class Queues {
  readonly #session: WriteSession

  constructor(session: WriteSession) {
    this.#session = session
  }

  /**
   * The handles that may be looked up now, those that waited longest first. After them come those that would wait longer than
   * any request does: they were put off by a clock that was ahead.
   */
  async dueHandles(now: bigint, limit: number): Promise<HandleRequestsTable[]> {
    const columns = sql`"did", "seq", "attempts", "dueAt"`
    const due = await this.#session.all(sql<HandleRequestsTable>`
      select ${columns} from "handleRequests" where "dueAt" <= ${now} order by "dueAt" limit ${limit}`)
    if (due.length === limit) return due
    const ahead = await this.#session.all(sql<HandleRequestsTable>`
      select ${columns} from "handleRequests" where "dueAt" > ${now + handleWaitMax}
      order by "dueAt" limit ${limit - due.length}`)
    return [...due, ...ahead]
  }

  /** When the next handle may be looked up; undefined when none is to be. */
  async nextHandleDueAt(): Promise<bigint | undefined> {
    const [row] = await this.#session.all(
      sql<{ dueAt: bigint | null }>`select min("dueAt") as "dueAt" from "handleRequests"`,
    )
    return row?.dueAt ?? undefined
  }

  /**
   * Authors whose host was last asked before a time, those that waited longest first. After them come those that were asked
   * after the present moment, which says a clock that was ahead.
   */
  async accountsToCheck({ before, now, limit }: AccountsToCheck): Promise<Did[]> {
    const select = (wanted: RawBuilder<unknown>, count: number): Promise<Pick<AccountsTable, 'did'>[]> =>
      this.#session.all(sql<Pick<AccountsTable, 'did'>>`
        select "did" from "accounts" where "isAuthor" = 1 and ${wanted}
        order by "checkedAt" limit ${count}`)
    const rows = await select(sql`"checkedAt" < ${before}`, limit)
    if (rows.length < limit) rows.push(...(await select(sql`"checkedAt" > ${now}`, limit - rows.length)))
    return rows.map(({ did }) => did)
  }

  /** Forgets places of records that were taken away before this time, some at a time. False when there was none. */
  async forgetSomePlaces(before: bigint): Promise<boolean> {
    const forgotten = await this.#session.all(sql`delete from "superseded" where "uri" in
      (select "uri" from "superseded" where "supersededAt" < ${before} limit ${placesPerStep}) returning "uri"`)
    return forgotten.length > 0
  }

  /**
   * The author that has waited longest for rows to be made again. Undefined when there is none.
   * @param isHiding whether among those of whom shown rows are still to be removed, or among all others
   */
  async nextRemake(isHiding: boolean): Promise<RemakesTable | undefined> {
    const [row] = await this.#session.all(sql<RemakesTable>`
      select * from "remakes" where "isHiding" = ${isHiding ? 1n : 0n} and "failures" < ${remakeFailuresMax}
      order by "place" limit 1`)
    return row
  }

  /** A place behind all others. */
  async lastRemakePlace(): Promise<bigint> {
    const [row] = await this.#session.all(sql<{ place: bigint }>`
      select coalesce(max("place"), 0) + 1 as "place" from (
        select max("place") as "place" from "remakes" where "isHiding" = 0
        union all select max("place") from "remakes" where "isHiding" = 1) as "each"`)
    return row?.place ?? 1n
  }

  /** How many authors wait, those included whose rows could not be made again. */
  async remakes(): Promise<number> {
    const [row] = await this.#session.all(
      sql<{ authors: bigint }>`select count(*) as "authors" from "remakes"`,
    )
    return Number(row?.authors ?? 0)
  }

  /** Authors whose rows could not be made again get another try. */
  async retryRemakes(): Promise<void> {
    await this.#session.all(sql`update "remakes" set "failures" = 0 where "failures" > 0`)
  }
}
