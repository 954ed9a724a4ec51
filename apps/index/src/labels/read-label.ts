import { setImmediate as nextTurn } from 'node:timers/promises'
import { encode, fromBytes, isBytes } from '@atcute/cbor'
import { parseDatetime } from '@tributary/index-store'
import {
  type Did,
  isDid,
  parseRecordUri,
  type QualityLabel,
  qualityLabels,
  feedCollections,
} from '@tributary/protocol'
import { type SigningKey, verifySignature } from '@tributary/repo-verify'
import { isAccountDid, isPlain } from '../fold/readable.ts'

/** CIDs that labels name have some 60 characters. What is longer would not fit into an index of a database. */
const cidCharsMax = 256

/** Labels whose signatures are checked in one turn of the event loop: some 5 ms. */
const labelsPerTurn = 64

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
  | { result: 'irrelevant' | 'malformed' | 'wrong-source' }
  /** `cts` is the labeler's word. */
  | { result: 'bad-signature'; cts: bigint }

/** What was done with a label, for counting. */
export type LabelResult = Exclude<ReadLabel['result'], 'label'> | 'stored'

/** Reads the labels of one message in turns of the event loop. */
export async function readLabels(
  values: readonly unknown[],
  src: Did,
  key: SigningKey,
): Promise<ReadLabel[]> {
  const read: ReadLabel[] = []
  for (const value of values) {
    if (read.length > 0 && read.length % labelsPerTurn === 0) await nextTurn()
    read.push(readLabel(value, src, key))
  }
  return read
}

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
  if (
    did === undefined ||
    !isAccountDid(did) ||
    quality === undefined ||
    createdAt === undefined ||
    expiresAt === undefined
  ) {
    return { result: 'irrelevant' }
  }
  if (typeof cid === 'string' && !isPlain(cid, cidCharsMax)) return { result: 'malformed' }
  const signed = signedPart(value)
  if (signed === undefined) return { result: 'malformed' }
  if (!verifySignature(key, signed.bytes, signed.sig)) return { result: 'bad-signature', cts: createdAt }
  const label = { src, did, uri, cid: typeof cid === 'string' ? cid : null, val: quality, neg: neg === true }
  return { result: 'label', label: { ...label, cts: createdAt, exp: expiresAt } }
}

/** The account that is labelled: by its bare DID, or on its organization record. */
function accountOf(uri: string, cid: unknown): Did | undefined {
  if (isDid(uri)) return cid === undefined ? uri : undefined
  const record = parseRecordUri(uri)
  const isOrganization = record?.collection === feedCollections.organization && record.rkey === 'self'
  return isOrganization && (cid === undefined || typeof cid === 'string') ? record.did : undefined
}

/**
 * A label is signed over its DAG-CBOR without `sig`. Fields we do not know are part of it. A label without `sig` has an
 * empty one. Undefined for fields that cannot be DAG-CBOR: a labeler may send any.
 */
function signedPart(label: Record<string, unknown>): { bytes: Uint8Array; sig: Uint8Array } | undefined {
  const { sig, ...signed } = label
  delete signed['$type']
  try {
    return { bytes: encode(signed), sig: isBytes(sig) ? fromBytes(sig) : new Uint8Array(0) }
  } catch {
    return undefined // The encoder has no error of its own: nothing else is called here.
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
