/**
 * The reference of pages in PostgreSQL: one statement that evaluates the rules when it is asked, as one would write it
 * from the specification. It classifies each record of the scope, finds project pairs in the JSON, and sorts. It takes every
 * award and every attachment as shown, which makes it cheaper than the rules.
 */
import { performance } from 'node:perf_hooks'
import pg from 'pg'

const pageEntries = 50
const statement = `
  with scope as (
    select distinct "subject" as "did" from "follows" where "viewer" = $1 and "subject" <> $1
  ), own as materialized (
    select record."uri", record."did", record."cid", record."collection", record."feedTime",
      case when record."collection" = 'org.impact.collection' then record."json"::jsonb end as "json"
    from scope join "visibleRecords" as record
      on record."uri" > 'at://' || scope."did" || '/' and record."uri" < 'at://' || scope."did" || '0'
    where record."collection" in ('org.impact.claim.activity', 'org.impact.collection',
      'org.impact.context.evaluation', 'org.impact.context.measurement', 'org.impact.context.attachment',
      'app.attested.badge.award', 'org.hyperboards.board')
  ), pairs as materialized (
    select collection."uri" as "project", activity."uri" as "activity"
    from own as collection
    cross join lateral jsonb_array_elements(case jsonb_typeof(collection."json" -> 'items')
      when 'array' then collection."json" -> 'items' else '[]' end) as item
    join own as activity on activity."uri" = item -> 'itemIdentifier' ->> 'uri'
      and activity."cid" = item -> 'itemIdentifier' ->> 'cid' and activity."did" = collection."did"
      and abs(activity."feedTime" - collection."feedTime") < 60000000
    where collection."collection" = 'org.impact.collection'
  )
  select "uri", "did", case
    when "collection" <> 'org.impact.collection' then "collection"
    when "uri" in (select "project" from pairs) then 'project.created_with_cert'
    else 'collection.create' end as "kind"
  from own where "uri" not in (select "activity" from pairs)
  order by "feedTime" desc, "uri" desc limit ${pageEntries + 1}`

/** Milliseconds of the first page of a viewer, `times` times, the shortest first. */
export async function readTimeMs(url: string, viewer: string, times: number): Promise<Float64Array> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const taken: number[] = []
    for (let time = 0; time < times; time++) {
      const fromMs = performance.now()
      await client.query(statement, [viewer])
      taken.push(performance.now() - fromMs)
    }
    return Float64Array.from(taken).toSorted()
  } finally {
    await client.end()
  }
}
