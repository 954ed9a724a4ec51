/**
 * Pages of many accounts look at a window first: the newest entries of everybody below the cursor, kept when their
 * author is in the viewer's scope. A page that fills this way costs the same however many accounts are in scope. What is
 * missing is selected by account, from the end of the window on, so the page is exact in every case.
 */
import { sql, type RawBuilder } from 'kysely'
import type { Session } from '../session.ts'
import { start } from './entries.ts'
import { isOfQuality } from './quality.ts'
import type { Position, SelectedEntry, Selection } from './selection.ts'
import type { SelectEntries } from './view.ts'

export interface WindowBounds {
  /** A scope of at most this many accounts is selected by account alone, because that takes a millisecond. */
  readonly accountsMin: number
  /** Look-ups of a window: each entry is looked for among the follows, and among the endorsements of each evaluator. */
  readonly lookUpsMax: number
  /** Look-ups of one statement: about a millisecond. */
  readonly lookUpsPerStep: number
}

export const windowDefault: WindowBounds = { accountsMin: 1000, lookUpsMax: 5000, lookUpsPerStep: 1000 }

/** Selects from a window, then by account with `select`. Small scopes take `select` alone. */
export function windowFirst(select: SelectEntries, bounds: WindowBounds): SelectEntries {
  return async (session, selection) => {
    const { accountsMin } = bounds
    if (!(await isLarge(session, selection, accountsMin))) return select(session, selection, accountsMin)
    const { found, rest } = await readWindow(session, selection, bounds)
    return rest === undefined ? found : [...found, ...(await select(session, rest))]
  }
}

/** An account that several sources name counts several times. */
async function isLarge(
  { all, dialect }: Session,
  { viewer, evaluators }: Selection,
  accountsMin: number,
): Promise<boolean> {
  const more = await all(sql`
    select 1 from (
      select 1 from "follows" where "viewer" = ${viewer}
      union all
      select 1 from "endorsements" where "issuer" in ${dialect.listed(evaluators)}
    ) as scope limit 1 offset ${accountsMin}`)
  return more.length > 0
}

interface WindowRead {
  readonly found: SelectedEntry[]
  /** What to select below the window; undefined when the page is full or no entry is left. */
  readonly rest?: Selection
}

async function readWindow(
  session: Session,
  selection: Selection,
  { lookUpsMax, lookUpsPerStep }: WindowBounds,
): Promise<WindowRead> {
  const { limit, evaluators } = selection
  const sources = 1 + evaluators.length
  const entriesMax = lookUpsMax / sources
  const step = Math.max(1, Math.floor(lookUpsPerStep / sources))
  const found: SelectedEntry[] = []
  let rest = selection
  for (let read = step; ; read += step) {
    found.push(...(await session.all(recentOf(session, rest, step))))
    if (found.length === limit) return { found }
    const [last] = await session.all(lastRecentOf(rest, step))
    if (last === undefined) return { found }
    rest = { ...rest, after: last, limit: limit - found.length }
    // A window that does not fill the page saves nothing, because all accounts are looked at after it. The expectation of
    // a page that is not full falls below its limit when `entriesMax` entries have been read, so the window ends then.
    const expected = (found.length / read) * entriesMax
    if (expected < limit) return { found, rest }
  }
}

/** Statement that gives those of the newest `count` entries of everybody that the page may show. */
export function recentOf(
  { dialect }: Pick<Session, 'dialect'>,
  selection: Selection,
  count: number,
): RawBuilder<SelectedEntry> {
  const { viewer, evaluators, quality, kinds, after = start, limit } = selection
  const author = sql`recent."did"`
  const endorsed = sql`union all
    select 1 from "endorsements" where "issuer" in ${dialect.listed(evaluators)} and "subject" = ${author}`
  // As a value, not with `exists`: PostgreSQL would read all follows of the viewer into a hash table.
  return sql<SelectedEntry>`
    select "uri", "did", "kind", "feedTime" from (
      select "uri", "did", "kind", "feedTime" from "entries"
      where ("feedTime", "uri") < (${after.feedTime}, ${after.uri})
      order by "feedTime" desc, "uri" desc limit ${count}
    ) as recent
    where ${author} <> ${viewer} ${kinds ? sql`and "kind" in ${dialect.listed(kinds)}` : sql``}
    and (
      select 1 from "follows" where "viewer" = ${viewer} and "subject" = ${author}
      ${evaluators.length > 0 ? endorsed : sql``} limit 1
    ) = 1
    ${quality ? sql`and ${isOfQuality(dialect, author, quality, selection)}` : sql``}
    order by "feedTime" desc, "uri" desc limit ${limit}`
}

/** Statement that gives the last of the newest `count` entries of everybody, or nothing when there are fewer. */
export function lastRecentOf({ after = start }: Selection, count: number): RawBuilder<Position> {
  return sql<Position>`
    select "feedTime", "uri" from "entries" where ("feedTime", "uri") < (${after.feedTime}, ${after.uri})
    order by "feedTime" desc, "uri" desc limit 1 offset ${count - 1}`
}
