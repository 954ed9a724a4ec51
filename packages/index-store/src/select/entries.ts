/**
 * Which entries a page holds (feed.md sections 4, 6 and 7): who the viewer's page may show (follows and endorsed accounts,
 * less the viewer and the organizations that the quality rule drops), and the newest entries of those accounts below the
 * cursor.
 *
 * The index has classified every entry when records changed, and its two indexes hold an account's entries in feed
 * order, so a page costs by the accounts in scope and by what it returns. An account's run of entries is left as soon as
 * the page is full of newer ones, however many entries it has. Accounts are taken some at a time, so that a page of many
 * does not hold up others: what was found so far is the floor for the next ones.
 */
import { sql, type RawBuilder } from 'kysely'
import type { Did } from '@tributary/protocol'
import type { Session } from '../session.ts'
import { isOfKinds } from './kinds.ts'
import { isOfQuality } from './quality.ts'
import type { Position, SelectedEntry, Selection } from './selection.ts'

/** Accounts that one statement looks at: about a millisecond. */
const accountsPerStep = 1000

/**
 * Above every entry. The first page is read with a bound too: without one SQLite does not see that the index by author
 * gives the order, and sorts everything that the authors ever wrote.
 */
export const start: Position = { feedTime: 2n ** 63n - 1n, uri: '' }
/** Below every entry. */
export const beginning: bigint = -(2n ** 63n)

/** One row per entry, newest first, at most `limit`. */
export async function selectInSteps(
  session: Session,
  selection: Selection,
  accountsMax: number = Infinity,
): Promise<SelectedEntry[]> {
  const { limit, viewer, evaluators } = selection
  if (accountsMax <= accountsPerStep) {
    const endorsements = evaluators.map((from): Source => ({ table: 'endorsements', from }))
    const scope = accountsOf(session, [{ table: 'follows', from: viewer }, ...endorsements])
    return selectFromFew(session, selection, scope)
  }
  let best: SelectedEntry[] = []
  for await (const accounts of scopeInSteps(session, selection)) {
    const floor = best.length < limit ? beginning : (best.at(-1)?.feedTime ?? beginning)
    const found = await session.all(entriesOf(session, selection, accounts, floor))
    best = newestOf(best, found, limit)
  }
  return best
}

/**
 * Selects from few accounts. SQLite looks for each of several kinds in the entries of each account, which takes as many times as
 * long. So the newest entries of all kinds are looked at first, three times as many as are wanted, however they are mixed.
 */
async function selectFromFew(
  session: Session,
  selection: Selection,
  scope: RawBuilder<unknown>,
): Promise<SelectedEntry[]> {
  const { kinds, ...ofAll } = selection
  if (kinds === undefined || kinds.length === 1)
    return session.all(entriesOf(session, selection, scope, beginning))
  const { limit } = selection
  const newest = await session.all(entriesOf(session, { ...ofAll, limit: 3 * limit }, scope, beginning))
  const found = newest.filter(({ kind }) => kinds.includes(kind)).slice(0, limit)
  const last = newest.at(-1)
  if (found.length === limit || newest.length < 3 * limit || last === undefined) return found
  const rest = { ...selection, after: last, limit: limit - found.length }
  return [...found, ...(await session.all(entriesOf(session, rest, scope, beginning)))]
}

/** Statement that gives the newest entries of some accounts that are not below `floor`. */
export function entriesOf(
  { dialect }: Pick<Session, 'dialect'>,
  selection: Selection,
  accounts: RawBuilder<unknown>,
  floor: bigint,
): RawBuilder<SelectedEntry> {
  const { viewer, quality, kinds, after = start, limit } = selection
  const ofQuality = quality ? sql`and ${isOfQuality(dialect, sql`scope."did"`, quality, selection)}` : sql``
  return sql<SelectedEntry>`
    select "uri", "did", "kind", "feedTime" from "entries"
    where "did" in (select "did" from (${accounts}) as scope where "did" <> ${viewer} ${ofQuality})
    ${kinds ? sql`and ${isOfKinds(kinds)}` : sql``}
    and ("feedTime", "uri") < (${after.feedTime}, ${after.uri}) and "feedTime" >= ${floor}
    order by "feedTime" desc, "uri" desc limit ${limit}`
}

/** Whom a viewer follows, or whom an evaluator endorses. */
interface Source {
  readonly table: 'follows' | 'endorsements'
  readonly from: Did
}

/**
 * Statements that give the accounts in scope, each at most `accountsPerStep` of them. Small sources are taken together,
 * large ones in parts. An account that several sources name may come several times.
 */
async function* scopeInSteps(session: Session, selection: Selection): AsyncGenerator<RawBuilder<unknown>> {
  let small: Source[] = []
  let inSmall = 0
  for (const [source, size] of await sizesOf(session, selection)) {
    if (size > accountsPerStep) {
      yield* partsOf(session, source)
      continue
    }
    if (inSmall + size > accountsPerStep) {
      yield accountsOf(session, small)
      ;[small, inSmall] = [[], 0]
    }
    small.push(source)
    inSmall += size
  }
  if (inSmall > 0) yield accountsOf(session, small)
}

/** How many accounts each source names, counted up to one more than fit into one step. */
async function sizesOf(
  { all, dialect }: Session,
  { viewer, evaluators }: Selection,
): Promise<[source: Source, size: number][]> {
  const bound = accountsPerStep + 1
  const rows = await all(sql<{ from: Did | null; size: bigint }>`
    select null as "from",
      (select count(*) from (select 1 from "follows" where "viewer" = ${viewer} limit ${bound}) as some) as "size"
    union all
    select evaluator."value" as "from", (select count(*) from
      (select 1 from "endorsements" where "issuer" = evaluator."value" limit ${bound}) as some) as "size"
    from ${dialect.listed(evaluators)} as evaluator`)
  return rows.map(({ from, size }) => [
    from === null ? { table: 'follows', from: viewer } : { table: 'endorsements', from },
    Number(size),
  ])
}

/** The same text for any number of sources, because a connection keeps each statement prepared. */
export function accountsOf(
  { dialect }: Pick<Session, 'dialect'>,
  sources: readonly Source[],
): RawBuilder<unknown> {
  const listed = (wanted: Source['table']): RawBuilder<unknown> =>
    dialect.listed(sources.filter(({ table }) => table === wanted).map(({ from }) => from))
  return sql`select "subject" as "did" from ${named('follows')} in ${listed('follows')}
    union select "subject" from ${named('endorsements')} in ${listed('endorsements')}`
}

/** A part ends within the rows of an account when several records name it. Its other rows are passed over. */
async function* partsOf({ all }: Session, { table, from }: Source): AsyncGenerator<RawBuilder<unknown>> {
  for (let after: string | undefined = ''; after !== undefined;) {
    const rest: RawBuilder<unknown> = sql`${named(table)} = ${from} and "subject" > ${after} order by "subject"`
    yield sql`select "subject" as "did" from ${rest} limit ${accountsPerStep}`
    const [last] = await all(sql<{ subject: string }>`
      select "subject" from ${rest} limit 1 offset ${accountsPerStep - 1}`)
    after = last?.subject
  }
}

/** The table of a source up to the value of the column that says whose it is. */
function named(table: Source['table']): RawBuilder<unknown> {
  return table === 'follows' ? sql`"follows" where "viewer"` : sql`"endorsements" where "issuer"`
}

/** The newest entries of two lists, each once. */
function newestOf(
  first: readonly SelectedEntry[],
  second: readonly SelectedEntry[],
  limit: number,
): SelectedEntry[] {
  const known = new Set(first.map(({ uri }) => uri))
  const both = [...first, ...second.filter(({ uri }) => !known.has(uri))]
  return both.toSorted(byFeedOrder).slice(0, limit)
}

function byFeedOrder(a: SelectedEntry, b: SelectedEntry): number {
  if (a.feedTime !== b.feedTime) return a.feedTime > b.feedTime ? -1 : 1
  return Buffer.compare(Buffer.from(b.uri), Buffer.from(a.uri))
}
