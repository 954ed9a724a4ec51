/** What the index holds about the accounts of a page, in one statement (feed.md section 10). */
import { type Did, feedCollections, recordUri } from '@tributary/protocol'
import { sql } from 'kysely'
import type { Session } from '../session.ts'
import type { ActorSource } from './selection.ts'

interface Fact {
  readonly did: Did
  readonly uri: string | null
  readonly value: string
}

/** Reads handles and profiles. A profile counts only at its exact address, `self` in its own collection. */
export async function readActors(session: Session, dids: readonly Did[]): Promise<Map<Did, ActorSource>> {
  const { listed } = session.dialect
  const profiles = dids.flatMap((did) =>
    [feedCollections.profile, feedCollections.socialProfile].map((collection) =>
      recordUri(did, collection, 'self'),
    ),
  )
  const facts = await session.all(sql<Fact>`
    select "did", null as "uri", "handle" as "value" from "handles" where "did" in ${listed(dids)}
    union all
    select "did", "uri", "view" from "views" where "uri" in ${listed(profiles)} and not exists
      (select 1 from "accounts" where "accounts"."did" = "views"."did" and "accounts"."hidden" = 1)`)

  const sources = new Map<Did, ActorSource>()
  for (const { did, uri, value } of facts) {
    const source = sources.get(did) ?? {}
    if (uri === null) source.handle = value
    else if (uri === recordUri(did, feedCollections.profile, 'self')) source.attested = value
    else source.social = value
    sources.set(did, source)
  }
  return sources
}
