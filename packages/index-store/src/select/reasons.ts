/** Why a page may show what an account wrote, for whoever asks about one entry: a page itself needs only that it may. */
import type { Did, QualityLabel } from '@tributary/protocol'
import { sql } from 'kysely'
import type { Session } from '../session.ts'
import { activeLabels } from './quality.ts'
import type { Reasons, ReasonsQuery } from './selection.ts'

type Fact = { readonly did: Did } & (
  | { readonly what: 'follow'; readonly value: string }
  | { readonly what: 'endorsement'; readonly value: Did }
  | { readonly what: 'organization' }
  | { readonly what: 'label'; readonly value: QualityLabel; readonly src: Did }
)

/** An account that nothing speaks for is absent. */
export async function readReasons(session: Session, query: ReasonsQuery): Promise<Map<Did, Reasons>> {
  const { viewer, evaluators } = query
  const { listed } = session.dialect
  const dids = listed(query.dids)
  const facts = await session.all(sql<Fact>`
    select "subject" as "did", 'follow' as "what", "uri" as "value", '' as "src" from "follows"
      where "viewer" = ${viewer} and "subject" in ${dids}
    union
    select "subject", 'endorsement', "issuer", '' from "endorsements"
      where "issuer" in ${listed(evaluators)} and "subject" in ${dids}
    union
    select "did", 'organization', '', '' from "organizations" where "did" in ${dids}
    union
    select rated."value", 'label', rating."value", labeler."value" from ${dids} as rated
      cross join ${activeLabels(session.dialect, query, { did: sql`rated."value"` })}
    order by 1, 2, 3, 4`)
  const reasons = new Map<Did, Reasons>()
  for (const fact of facts) {
    const of = reasons.get(fact.did) ?? { follows: [], endorsedBy: [], isOrganization: false, labels: [] }
    reasons.set(fact.did, of)
    if (fact.what === 'follow') of.follows.push(fact.value)
    else if (fact.what === 'endorsement') of.endorsedBy.push(fact.value)
    else if (fact.what === 'organization') of.isOrganization = true
    else of.labels.push({ val: fact.value, src: fact.src })
  }
  return reasons
}
