/**
 * The quality rule on organizations (feed.md 4.4), from the label history as it stands: which labels are active is
 * decided when a page is read, since a label may expire at any moment.
 *
 * A labeler may have said the same a thousand times. So a value is looked at once for each labeler: the newest label or
 * negation tells whether it is active.
 */
import { qualityLabels } from '@tributary/protocol'
import { sql, type RawBuilder } from 'kysely'
import type { Dialect } from '../session.ts'
import type { LabelView, QualityRule } from './selection.ts'

/**
 * The condition that the account `did` may appear. An account that is no organization always may; an organization with
 * one of the allowed labels active, or with none active at all if the rule includes the unrated.
 */
export function isOfQuality(
  dialect: Dialect,
  did: RawBuilder<unknown>,
  rule: QualityRule,
  view: LabelView,
): RawBuilder<unknown> {
  // Most have none, which one look tells. As values, not with `exists`: PostgreSQL would read whole tables to hash them.
  const hasAny = sql`(select 1 from "labels" as one
    where one."did" = ${did} and one."src" in ${dialect.listed(view.labelers)} limit 1) = 1`
  const active = (among: readonly string[]): RawBuilder<unknown> =>
    sql`(${hasAny} and (select 1 from ${activeLabels(dialect, view, { did, among })} limit 1) = 1)`
  const unrated = sql`${active(qualityLabels)} is not true`
  return sql`(
    (select 1 from "organizations" as organization where organization."did" = ${did} limit 1) is null
    or ${active(rule.allowed)} ${rule.includeUnrated ? sql`or ${unrated}` : sql``})`
}

/**
 * The active labels of the account `did` among some values, as `labeler."value"` and `rating."value"`, up to the end of a
 * condition that others may follow. An active label is on the bare DID, has not expired, and is not negated by its own
 * labeler at its time or later.
 */
export function activeLabels(
  dialect: Dialect,
  view: LabelView,
  { did, among = qualityLabels }: { did: RawBuilder<unknown>; among?: readonly string[] },
): RawBuilder<unknown> {
  // A negation is newer than a label of its moment. Rows on an address, or on one version of a record, do not count.
  return sql`${dialect.listed(view.labelers)} as labeler cross join ${dialect.listed(among)} as rating
    where (
      select said."neg" from "labels" as said
      where said."did" = ${did} and said."src" = labeler."value" and said."val" = rating."value"
      and said."uri" = said."did" and said."cid" is null and (said."exp" is null or said."exp" > ${view.now})
      order by said."cts" desc, said."neg" desc limit 1) = 0`
}
