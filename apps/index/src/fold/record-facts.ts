/**
 * What single records state, read without their lexicon: a record that breaks its lexicon elsewhere still counts for the
 * selection (feed.md section 14). Undefined and empty results mean that the record has no effect of that sort.
 */
import { type Did, feedCollections, isCid, isDid, parseRecordUri } from '@tributary/protocol'
import { isAccountDid } from './readable.ts'

export type RecordValue = Readonly<Record<string, unknown>>

export interface StrongRef {
  uri: string
  cid: string
}

export interface Award {
  subject: Did
  badge: StrongRef
}

export interface Response {
  award: StrongRef
  isRejected: boolean
}

/** The account that a follow record names (feed.md 4.1). */
export function readFollowSubject(record: RecordValue): Did | undefined {
  const subject = record['subject']
  return isDid(subject) ? subject : undefined
}

/** An award to another account that names a badge definition: rules 1, 2 and the shape of rule 3 of feed.md section 5. */
export function readAward(issuer: Did, record: RecordValue): Award | undefined {
  const subject = record['subject']
  if (!isObject(subject) || subject['$type'] !== 'app.attested.defs#did') return undefined
  const did = subject['did']
  if (!isDid(did) || did === issuer) return undefined
  const badge = readStrongRef(record['badge'], feedCollections.definition)
  return badge && { subject: did, badge }
}

/** The answer to an award; which account may give it is the award's to say (rule 6). */
export function readResponse(record: RecordValue): Response | undefined {
  const answer = record['response']
  if (typeof answer !== 'string' || answer === '') return undefined
  const award = readStrongRef(record['badgeAward'], feedCollections.award)
  return award && { award, isRejected: answer === 'rejected' }
}

/** The activities of its own repository that a collection record lists (feed.md 6.1), each once however often it is listed. */
export function readOwnActivities(owner: Did, record: RecordValue): StrongRef[] {
  const items = record['items']
  if (!Array.isArray(items)) return []
  const prefix = `at://${owner}/`
  const activities = items.flatMap((item: unknown) => {
    const activity = isObject(item)
      ? readStrongRef(item['itemIdentifier'], feedCollections.activity)
      : undefined
    return activity?.uri.startsWith(prefix) ? [activity] : []
  })
  return [...new Map(activities.map((activity) => [`${activity.uri} ${activity.cid}`, activity])).values()]
}

/** Whose awards of a badge are endorsements. */
export type Issuers = 'all' | ReadonlySet<Did>

/** Reads whom a badge definition lets give endorsements (rules 4 and 5). What nobody can be is left out: it may be long. */
export function readIssuers(definition: RecordValue): Issuers {
  if (definition['badgeType'] !== 'endorsement') return new Set()
  const allowed = definition['allowedIssuers']
  if (allowed === undefined) return 'all'
  if (!Array.isArray(allowed)) return new Set()
  const named = allowed.map((entry: unknown) => (isObject(entry) ? entry['did'] : entry))
  return new Set(named.filter((did): did is Did => isDid(did) && isAccountDid(did)))
}

/** A reference that can match a record of that collection. */
function readStrongRef(value: unknown, collection: string): StrongRef | undefined {
  if (!isObject(value)) return undefined
  const { uri, cid } = value
  if (typeof uri !== 'string' || !isCid(cid)) return undefined
  const record = parseRecordUri(uri)
  return record?.collection === collection && isAccountDid(record.did) ? { uri, cid } : undefined
}

function isObject(value: unknown): value is RecordValue {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
