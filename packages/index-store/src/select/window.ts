/**
 * Pages of many accounts look at a window first: the newest entries of everybody below the cursor, kept when their
 * author is in the viewer's scope. A page that fills this way costs the same however many accounts are in scope. What is
 * missing is selected by account, from the end of the window on, so the page is exact in every case.
 */
import { sql, type RawBuilder } from 'kysely'
import type { Session } from '../session.ts'
import { start } from './entries.ts'
import { isOfKinds } from './kinds.ts'
import { isOfQuality } from './quality.ts'
import type { SelectedEntry, Selection } from './selection.ts'
import type { SelectEntries } from './view.ts'

export interface WindowBounds {
  /** A scope of at most this many accounts is selected by account alone, which costs less than the first step. */
  readonly accountsMin: number
  /** Look-ups that cost as much as to select the entries of one account. */
  readonly lookUpsPerAccount: number
  /** Look-ups of a window: each entry is looked for among the follows, and among the endorsements of each evaluator. */
  readonly lookUpsMax: number
  /** Look-ups of one step at most: about a millisecond. */
  readonly lookUpsPerStepMax: number
}

/** What both databases have in common. */
export const windowSteps: Omit<WindowBounds, 'accountsMin' | 'lookUpsPerAccount'> = {
  lookUpsMax: 5000,
  lookUpsPerStepMax: 1000,
}

/** The first step has so much of the look-ups, and each further one at least: entries of one kind often come in a row. */
const stepShareMin = 0.2
/** How many more entries are looked at than those that would just fill the page. */
const spare = 1.25

/** Selects from a window, then by account with `select`. Small scopes take `select` alone. */
export function windowFirst(select: SelectEntries, bounds: WindowBounds): SelectEntries {
  const { accountsMin, lookUpsPerAccount, lookUpsMax } = bounds
  const countedMax = 1 + Math.max(accountsMin, Math.ceil(lookUpsMax / lookUpsPerAccount))
  return async (session, selection) => {
    const accounts = await countAccounts(session, selection, countedMax)
    const accountsMax = accounts < countedMax ? accounts : undefined
    if (accounts <= accountsMin) return select(session, selection, accountsMax)
    const { found, rest } = await readWindow(session, selection, {
      ...bounds,
      lookUpsMax: Math.min(lookUpsMax, accounts * lookUpsPerAccount),
    })
    return rest === undefined ? found : [...found, ...(await select(session, rest, accountsMax))]
  }
}

/** How many accounts are in scope, counted up to a bound. One that several sources name counts several times. */
async function countAccounts(
  { all, dialect }: Session,
  { viewer, evaluators }: Selection,
  countedMax: number,
): Promise<number> {
  const [row] = await all(sql<{ count: bigint }>`
    select count(*) as "count" from (
      select 1 from "follows" where "viewer" = ${viewer}
      union all
      select 1 from "endorsements" where "issuer" in ${dialect.listed(evaluators)}
      limit ${countedMax}
    ) as scope`)
  return Number(row?.count ?? 0)
}

interface WindowRead {
  readonly found: SelectedEntry[]
  /** What to select after these; undefined when the page is full. The next step of a window begins there, too. */
  readonly rest?: Selection
}

async function readWindow(
  session: Session,
  selection: Selection,
  { lookUpsMax, lookUpsPerStepMax }: WindowBounds,
): Promise<WindowRead> {
  const { limit, evaluators } = selection
  const entriesOf = (lookUps: number): number => Math.max(1, Math.floor(lookUps / (1 + evaluators.length)))
  const found: SelectedEntry[] = []
  let rest = selection
  const stepMin = entriesOf(Math.min(lookUpsMax * stepShareMin, lookUpsPerStepMax))
  let step = stepMin
  for (let read = step; ; read += step) {
    found.push(...(await session.all(recentOf(session, rest, step))))
    if (found.length === limit) return { found }
    const last = found.at(-1)
    rest = { ...rest, ...(last && { after: last }), limit: limit - found.length }
    // A window that does not fill the page saves nothing, because all accounts are looked at after it. The expectation of
    // a page that is not full falls below its limit when `lookUpsMax` has been reached, so the window ends then.
    const share = found.length / read
    if (share * entriesOf(lookUpsMax) < limit) return { found, rest }
    const wanted = Math.ceil((spare * rest.limit) / share)
    const left = entriesOf(lookUpsMax) - read
    step = Math.min(Math.max(wanted, stepMin), entriesOf(lookUpsPerStepMax), left)
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
    where ${author} <> ${viewer} ${kinds ? sql`and ${isOfKinds(kinds)}` : sql``}
    and (
      select 1 from "follows" where "viewer" = ${viewer} and "subject" = ${author}
      ${evaluators.length > 0 ? endorsed : sql``} limit 1
    ) = 1
    ${quality ? sql`and ${isOfQuality(dialect, author, quality, selection)}` : sql``}
    order by "feedTime" desc, "uri" desc limit ${limit}`
}
