/** What the index holds about the accounts of a page, in one statement (feed.md section 10). */
import type { IndexDatabase } from '@tributary/index-store'
import { recordUri, type Did } from '@tributary/protocol'
import { sql, type Kysely } from 'kysely'
import { listed } from './listed.ts'

const attestedProfile = 'app.attested.actor.profile'
const socialProfile = 'app.social.actor.profile'

/** What the index holds about one account: the handle, and name and avatar by the two profiles as JSON. */
export interface ActorSource {
  handle?: string
  attested?: string
  social?: string
}

/** Sources by account; an account of which the index holds nothing is absent. */
export type ActorReader = (dids: readonly Did[]) => Promise<ReadonlyMap<Did, ActorSource>>

interface Fact {
  readonly did: Did
  readonly uri: string | null
  readonly value: string
}

/** Reads handles and profiles. A profile counts only at its exact address, `self` in its own collection. */
export async function readActors(
  db: Kysely<IndexDatabase>,
  dids: readonly Did[],
): Promise<Map<Did, ActorSource>> {
  const profiles = dids.flatMap((did) =>
    [attestedProfile, socialProfile].map((collection) => recordUri(did, collection, 'self')),
  )
  const { rows } = await sql<Fact>`
    select "did", null as "uri", "handle" as "value" from "handles" where "did" in ${listed(dids)}
    union all
    select "did", "uri", "view" from "views" where "uri" in ${listed(profiles)} and not exists
      (select 1 from "accounts" where "accounts"."did" = "views"."did" and "accounts"."hidden" = 1)`.execute(
    db,
  )

  const sources = new Map<Did, ActorSource>()
  for (const { did, uri, value } of rows) {
    const source = sources.get(did) ?? {}
    if (uri === null) source.handle = value
    else if (uri === recordUri(did, attestedProfile, 'self')) source.attested = value
    else source.social = value
    sources.set(did, source)
  }
  return sources
}
