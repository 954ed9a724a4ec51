/**
 * The entries of a page in PostgreSQL, in one statement: the newest entry of each account in scope below the cursor, and
 * then the newest entries of those accounts whose newest are the newest. No other account can have an entry on the page.
 * When these accounts are as many as the page has entries, none of their entries that is older than the last of the newest
 * ones can be on it either. So a page costs by the accounts in scope and by what it returns, however much anybody wrote.
 */
import { sql, type RawBuilder } from 'kysely'
import { beginning, start } from '../select/entries.ts'
import { isOfKinds } from '../select/kinds.ts'
import { isOfQuality } from '../select/quality.ts'
import type { SelectedEntry, Selection } from '../select/selection.ts'
import type { Session } from '../session.ts'

export async function selectAtOnce(session: Session, selection: Selection): Promise<SelectedEntry[]> {
  return session.all(pageOf(session, selection))
}

export function pageOf(
  { dialect }: Pick<Session, 'dialect'>,
  selection: Selection,
): RawBuilder<SelectedEntry> {
  const { viewer, evaluators, quality, kinds, after = start, limit } = selection
  const ofQuality = quality ? sql`and ${isOfQuality(dialect, sql`scope."did"`, quality, selection)}` : sql``
  const newestOf = (did: RawBuilder<unknown>, count: number, floor = sql``): RawBuilder<unknown> => sql`
    select "uri", "did", "kind", "feedTime" from "entries"
    where "did" = ${did} ${kinds ? sql`and ${isOfKinds(kinds)}` : sql``}
    and ("feedTime", "uri") < (${after.feedTime}, ${after.uri}) ${floor}
    order by "feedTime" desc, "uri" desc limit ${count}`
  const floor = sql`and "feedTime" >= (select "feedTime" from bound)`
  return sql<SelectedEntry>`
    with scope as (
      select "subject" as "did" from "follows" where "viewer" = ${viewer}
      union
      select "subject" from "endorsements" where "issuer" in ${dialect.listed(evaluators)}
    ), heads as (
      select head.* from scope cross join lateral (${newestOf(sql`scope."did"`, 1)}) as head
      where scope."did" <> ${viewer} ${ofQuality}
      order by "feedTime" desc, "uri" desc limit ${limit}
    ), bound as (
      select case when count(*) = ${limit} then min("feedTime") else ${beginning} end as "feedTime" from heads
    )
    select entry.* from heads cross join lateral (${newestOf(sql`heads."did"`, limit, floor)}) as entry
    order by "feedTime" desc, "uri" desc limit ${limit}`
}
