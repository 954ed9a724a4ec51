/**
 * The quality rule on organizations (feed.md 4.4), from the label history as it stands: which labels are active is
 * decided when a page is read, since a label may expire at any moment.
 */
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
  const active = sql`select 1 from ${activeLabels(dialect, view)} and label."did" = ${did}`
  const allowed = sql`exists (${active} and label."val" in ${dialect.listed(rule.allowed)})`
  const unrated = sql`not exists (${active})`
  return sql`(
    not exists (select 1 from "organizations" as organization where organization."did" = ${did})
    or ${allowed} ${rule.includeUnrated ? sql`or ${unrated}` : sql``})`
}

/**
 * The active labels, as `label`, up to the end of a condition that others may follow. An active label is on the bare DID,
 * has not expired, and is not negated by its own labeler at its time or later.
 */
export function activeLabels(dialect: Dialect, view: LabelView): RawBuilder<unknown> {
  return sql`"labels" as label
    where label."src" in ${dialect.listed(view.labelers)} and ${counts('label', view)} and label."neg" = 0
    and not exists (
      select 1 from "labels" as negation
      where negation."did" = label."did" and negation."src" = label."src" and negation."val" = label."val"
      and negation."neg" = 1 and negation."cts" >= label."cts" and ${counts('negation', view)})`
}

/** A row on an address, or on one version of a record, says nothing about the account; an expired one says nothing. */
function counts(table: 'label' | 'negation', { now }: LabelView): RawBuilder<unknown> {
  const column = (name: string): RawBuilder<unknown> => sql.ref(`${table}.${name}`)
  return sql`${column('uri')} = ${column('did')} and ${column('cid')} is null
    and (${column('exp')} is null or ${column('exp')} > ${now})`
}
