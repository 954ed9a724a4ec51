import { sql } from 'kysely'
import type { Session } from '../session.ts'
import { readAccount } from './account.ts'
import { readActors } from './actors.ts'
import { readReasons } from './reasons.ts'
import type { IndexView, SelectedEntry, SelectedView, Selection } from './selection.ts'

/** How the entries of a page are found, which differs between databases; that they are the same is tested. */
export type SelectEntries = (
  session: Session,
  selection: Selection,
  /** The scope has at most this many accounts; absent when nothing is known of its size. */
  accountsMax?: number,
) => Promise<SelectedEntry[]>

/** What may be asked of one state of the index. */
export function viewOf(session: Session, select: SelectEntries): IndexView {
  return {
    entries: (selection) => select(session, selection),
    views: async (selection) => withViews(session, await select(session, selection)),
    probe: async () => void (await session.all(sql`select 1 from "entries" limit 1`)),
    actors: (dids) => readActors(session, dids),
    reasons: (query) => readReasons(session, query),
    account: (did) => readAccount(session, did),
    waitingHandles: (countedMax) => countWaitingHandles(session, countedMax),
  }
}

async function countWaitingHandles({ all }: Session, countedMax: number): Promise<number> {
  const [row] = await all(
    sql<{ count: bigint }>`select count(*) as "count"
      from (select 1 from "handleRequests" limit ${countedMax}) as "counted"`,
  )
  return Number(row?.count ?? 0)
}

/** Entries with what is shown of them. */
async function withViews(session: Session, entries: readonly SelectedEntry[]): Promise<SelectedView[]> {
  if (entries.length === 0) return []
  const uris = session.dialect.listed(entries.map(({ uri }) => uri))
  const shown = await session.all(
    sql<{ uri: string; view: string }>`select "uri", "view" from "views" where "uri" in ${uris}`,
  )
  const views = new Map(shown.map(({ uri, view }) => [uri, view]))
  return entries.map((entry) => ({ ...entry, view: views.get(entry.uri) ?? null }))
}
