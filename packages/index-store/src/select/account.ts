/** What the index holds of one account, for an operator who looks after it. */
import type { Did, EntryKind } from '@tributary/protocol'
import { sql } from 'kysely'
import type { AccountsTable, LabelsTable } from '../schema.ts'
import type { Session } from '../session.ts'

/** Labels that are told, the newest first. */
const labelsMax = 100

export interface AccountReport {
  /** Undefined for an account without indexed records that is not known to be inactive. */
  readonly account: AccountsTable | undefined
  readonly handle: string | undefined
  readonly records: readonly { readonly collection: string; readonly count: bigint }[]
  readonly entries: readonly { readonly kind: EntryKind; readonly count: bigint }[]
  readonly follows: bigint
  readonly labels: readonly LabelsTable[]
}

export async function readAccount({ all }: Session, did: Did): Promise<AccountReport> {
  const [account] = await all(sql<AccountsTable>`select * from "accounts" where "did" = ${did}`)
  const [handle] = await all(sql<{ handle: string }>`select "handle" from "handles" where "did" = ${did}`)
  const [follows] = await all(
    sql<{ count: bigint }>`select count(*) as "count" from "follows" where "viewer" = ${did}`,
  )
  return {
    account,
    handle: handle?.handle,
    records: await all(sql<{ collection: string; count: bigint }>`
      select "collection", count(*) as "count" from "records"
      where "uri" > ${`at://${did}/`} and "uri" < ${`at://${did}0`} group by "collection" order by "collection"`),
    entries: await all(sql<{ kind: EntryKind; count: bigint }>`
      select "kind", count(*) as "count" from "entries" where "did" = ${did} group by "kind" order by "kind"`),
    follows: follows?.count ?? 0n,
    labels: await all(sql<LabelsTable>`
      select * from "labels" where "did" = ${did} order by "cts" desc, "neg" desc limit ${labelsMax}`),
  }
}
