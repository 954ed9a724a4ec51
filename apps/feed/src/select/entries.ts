/**
 * Which entries a page holds (feed.md sections 4, 6 and 7), in one statement and so from one state of the index:
 * who the viewer's page may show (follows and endorsed accounts, less the viewer and the organizations that the quality
 * rule drops), and the newest entries of those accounts below the cursor.
 *
 * The index has classified every entry when records changed, and its two indexes hold an account's entries in feed
 * order, so a page costs by the accounts in scope and by what it returns. An account's run of entries is left as soon as
 * the page is full of newer ones, however many entries it has.
 */
import type { EntryKind, IndexDatabase } from '@tributary/index-store'
import type { Did } from '@tributary/protocol'
import { sql, type Kysely, type RawBuilder } from 'kysely'
import type { Position } from '../request/cursor.ts'
import type { QualityRule } from '../request/shape.ts'
import { listed } from './listed.ts'
import { isOfQuality, type LabelView } from './quality.ts'

export interface Selection extends LabelView {
  readonly viewer: Did
  readonly evaluators: readonly Did[]
  readonly quality?: QualityRule
  /** Absent for every kind. */
  readonly kinds?: readonly EntryKind[]
  /** Absent for the first page. */
  readonly after?: Position
  readonly limit: number
}

export interface SelectedEntry extends Position {
  readonly did: Did
  readonly kind: EntryKind
}

export interface SelectedView extends SelectedEntry {
  /** What is shown of its record, as JSON; null when the record must not be shown. */
  readonly view: string | null
}

/**
 * Above every entry. The first page is read with a bound too: without one SQLite does not see that the index by author
 * gives the order, and sorts everything that the authors ever wrote.
 */
const start: Position = { feedTime: 2n ** 63n - 1n, uri: '' }

/** One row per entry, newest first, at most `limit`. */
export async function selectEntries(
  db: Kysely<IndexDatabase>,
  selection: Selection,
): Promise<SelectedEntry[]> {
  const { rows } = await entriesOf(selection).execute(db)
  return rows
}

/** The same entries as `selectEntries`, with what is shown of them as it stands at the same moment. */
export async function selectViews(db: Kysely<IndexDatabase>, selection: Selection): Promise<SelectedView[]> {
  const { rows } = await sql<SelectedView>`
    select page."uri", page."did", page."kind", page."feedTime", shown."view"
    from (${entriesOf(selection)}) as page left join "views" as shown on shown."uri" = page."uri"
    order by page."feedTime" desc, page."uri" desc`.execute(db)
  return rows
}

/** The statement of `selectEntries`, for what builds on it. */
export function entriesOf(selection: Selection): RawBuilder<SelectedEntry> {
  const { kinds, after = start, limit } = selection
  return sql<SelectedEntry>`
    select "uri", "did", "kind", "feedTime" from "entries"
    where "did" in (${scopeOf(selection)})
    ${when(kinds, (some) => sql`and "kind" in ${listed(some)}`)}
    and ("feedTime", "uri") < (${after.feedTime}, ${after.uri})
    order by "feedTime" desc, "uri" desc limit ${limit}`
}

function scopeOf(selection: Selection): RawBuilder<unknown> {
  const { viewer, evaluators, quality } = selection
  return sql`
    select "did" from (
      select "subject" as "did" from "follows" where "viewer" = ${viewer}
      union
      select "subject" from "endorsements" where "issuer" in ${listed(evaluators)}
    ) as scope
    where "did" <> ${viewer} ${when(quality, (rule) => sql`and ${isOfQuality(sql`scope."did"`, rule, selection)}`)}`
}

const none = sql``

function when<T>(value: T | undefined, clause: (value: T) => RawBuilder<unknown>): RawBuilder<unknown> {
  return value === undefined ? none : clause(value)
}
