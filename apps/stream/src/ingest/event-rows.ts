/** Makes the rows of an upstream event (segment-format.md 5). */
import { encode, toBytes } from '@atcute/cbor'
import { RecordError } from '@tributary/protocol'
import { opFaults, type AccountBound, type CommitMessage, type Digest } from '@tributary/repo-verify'
import { rowKind, type RowKind, segmentLimits } from '@tributary/segment'
import type { NewRow } from '../archive/archive.ts'
import { recordContent } from '../delivery/record-content.ts'
import type { GoodCommit, WatchedOp } from '../verify/verified.ts'

/** Why an operation of a good commit gives no row. Also a metric label, so the set stays small and closed. */
export const droppedOpReasons = [...opFaults, 'name-too-long'] as const

export type DroppedOpReason = (typeof droppedOpReasons)[number]

const operationKinds = { create: rowKind.create, update: rowKind.update, delete: rowKind.delete } as const
const noPayload = new Uint8Array(0)

/**
 * One row for each operation of a commit that was read for the watched collections, in their order. An operation that
 * the archive cannot hold or show is dropped alone, and reported.
 * @param witnessedAt microseconds since 1970.
 */
export function commitRows(
  commit: GoodCommit,
  witnessedAt: number,
  onDropped: (reason: DroppedOpReason) => void,
): NewRow[] {
  const rows: NewRow[] = []
  const known: KnownContents = new Map()
  commit.dropped.forEach(onDropped)
  for (const op of commit.ops) {
    const row = operationRow(commit, op, witnessedAt, known)
    if (typeof row === 'string') onDropped(row)
    else rows.push(row)
  }
  return rows
}

/** The contents of the records of one commit by where these begin; undefined for those that cannot be shown. */
type KnownContents = Map<number, { record: Uint8Array; content: Uint8Array | undefined }>

function operationRow(
  { did, rev }: GoodCommit,
  { action, collection, rkey, cid, record }: WatchedOp,
  witnessedAt: number,
  known: KnownContents,
): NewRow | DroppedOpReason {
  if (collection.length > segmentLimits.collectionBytes || rkey.length > segmentLimits.rkeyBytes) {
    return 'name-too-long'
  }
  const names = { collection: sharedName(collection), did, rkey, rev }
  const base = { kind: operationKinds[action], witnessedAt, indexedAt: 0, ...names }
  if (action === 'delete') return { draft: { ...base, payload: noPayload } }
  if (!record) return 'missing-record'
  const content = contentOf(record, cid, known)
  if (!content) return 'unreadable-record'
  return { draft: { ...base, payload: record }, content }
}

/** Names of collections that rows share. Few are watched at a time. */
const sharedNames = new Map<string, string>()
const sharedNamesMax = 2000

/** One string for each collection. A name that was cut out of a text keeps all of that text in memory with its row. */
function sharedName(collection: string): string {
  const shared = sharedNames.get(collection)
  if (shared !== undefined) return shared
  if (sharedNames.size >= sharedNamesMax) sharedNames.clear()
  sharedNames.set(collection, collection)
  return collection
}

/** One block can be the record of many operations: it is read once. */
function contentOf(
  record: Uint8Array,
  cid: Digest | undefined,
  known: KnownContents,
): Uint8Array | undefined {
  const same = known.get(record.byteOffset)
  if (same?.record.buffer === record.buffer && same.record.length === record.length) return same.content
  const content = readableContent(record, cid)
  known.set(record.byteOffset, { record, content })
  return content
}

function readableContent(record: Uint8Array, cid: Digest | undefined): Uint8Array | undefined {
  try {
    return Buffer.from(recordContent(record, cid))
  } catch (error) {
    if (error instanceof RecordError) return undefined
    throw error
  }
}

/** The row of an identity, account or sync event. Its payload is the body of the message as it came. */
export function markerRow(
  kind: Extract<RowKind, 4 | 5 | 6>,
  message: Exclude<AccountBound, CommitMessage>,
  witnessedAt: number,
): NewRow {
  const { did, bytes, bodyStart } = message
  const rev = message.kind === 'sync' ? message.rev : ''
  const payload = bytes.subarray(bodyStart)
  return { draft: { kind, witnessedAt, indexedAt: 0, collection: '', did, rkey: '', rev, payload } }
}

/**
 * The marker before everything that a repository holds is written again (segment-format.md 5.2): what the archive had of
 * it does not count any more. The relay sent no such event, so its number is 0 and it has no blocks.
 */
export function syntheticSync(did: string, rev: string, witnessedAt: number): NewRow {
  const time = new Date(Math.floor(witnessedAt / 1000)).toISOString()
  const payload = encode({ did, rev, seq: 0, time, blocks: toBytes(new Uint8Array(0)) })
  return {
    draft: { kind: rowKind.sync, witnessedAt, indexedAt: 0, collection: '', did, rkey: '', rev, payload },
  }
}
