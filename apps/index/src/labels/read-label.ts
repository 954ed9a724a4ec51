import { encode, fromBytes, isBytes } from '@atcute/cbor'
import { parseDatetime, type QualityLabel, qualityLabels } from '@tributary/index-store'
import { type Did, isDid, parseRecordUri } from '@tributary/protocol'
import { type SigningKey, verifySignature } from '@tributary/repo-verify'

/** A label as it is stored: it passes rules 1 to 4 of feed.md 4.4.1, except that it may be on the organization record. */
export interface Label {
  src: Did
  did: Did
  uri: string
  cid: string | null
  val: QualityLabel
  neg: boolean
  cts: bigint
  exp: bigint | null
}

/**
 * What became of a label: `irrelevant` ones are about something else than the quality of an organization, or have a
 * time that cannot be read, and count for nothing.
 */
export type ReadLabel =
  | { result: 'label'; label: Label }
  | { result: 'irrelevant' | 'malformed' | 'wrong-source' | 'bad-signature' }

/** What was done with a label, for counting. */
export type LabelResult = Exclude<ReadLabel['result'], 'label'> | 'stored'

/** Reads one decoded label of the labeler `src` and checks its signature. */
export function readLabel(value: unknown, src: Did, key: SigningKey): ReadLabel {
  if (!isObject(value)) return { result: 'malformed' }
  const { uri, val, cts, exp, cid, neg } = value
  if (value['src'] !== src) return { result: 'wrong-source' }
  if (typeof uri !== 'string' || typeof val !== 'string' || typeof cts !== 'string')
    return { result: 'malformed' }
  const did = accountOf(uri, cid)
  const quality = qualityLabels.find((known) => known === val)
  const createdAt = parseDatetime(cts)
  const expiresAt = exp === undefined ? null : parseDatetime(exp)
  if (did === undefined || quality === undefined || createdAt === undefined || expiresAt === undefined) {
    return { result: 'irrelevant' }
  }
  if (!isSigned(value, key)) return { result: 'bad-signature' }
  const label = { src, did, uri, cid: typeof cid === 'string' ? cid : null, val: quality, neg: neg === true }
  return { result: 'label', label: { ...label, cts: createdAt, exp: expiresAt } }
}

/** The account that is labelled: by its bare DID, or on its organization record. */
function accountOf(uri: string, cid: unknown): Did | undefined {
  if (isDid(uri)) return cid === undefined ? uri : undefined
  const record = parseRecordUri(uri)
  const isOrganization = record?.collection === 'app.attested.actor.organization' && record.rkey === 'self'
  return isOrganization && (cid === undefined || typeof cid === 'string') ? record.did : undefined
}

/** Labels are signed over their DAG-CBOR without `sig`. Fields we do not know are part of it. */
function isSigned(label: Record<string, unknown>, key: SigningKey): boolean {
  const { sig, ...signed } = label
  delete signed['$type']
  return isBytes(sig) && verifySignature(key, encode(signed), fromBytes(sig))
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
