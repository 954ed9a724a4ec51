import { fromDigest, toString } from '@atcute/cid'
import {
  type CommitEvent,
  type EventKind,
  isDid,
  isNsid,
  isRecordKey,
  recordCborToJson,
  type StreamEvent,
} from '@tributary/protocol'
import type { BlockView, RowKind } from '@tributary/segment'
import { isObject } from './json.ts'
import type { Runtime } from './runtime.ts'

const dagCbor = 0x71

/** The event kind of each row kind, segment-format.md 5.1: kind 7 is a commit like the others. */
const eventKindOf = {
  1: 'commit',
  2: 'commit',
  3: 'commit',
  4: 'identity',
  5: 'account',
  6: 'sync',
  7: 'commit',
} as const satisfies Record<RowKind, EventKind>

const operationOf: Partial<Record<RowKind, CommitEvent['operation']>> = {
  1: 'create',
  2: 'update',
  3: 'delete',
  7: 'create',
}

/** What a filter looks at, read without decoding the payload. */
export function rowSummary(
  block: BlockView,
  i: number,
): { kind: EventKind; did: string; collection: string } {
  return { kind: eventKindOf[block.kindAt(i)], did: block.didAt(i), collection: block.collectionAt(i) }
}

/**
 * The event of an archive row, equal to what the live stream sends for it.
 * @throws Error when a column or the payload is not what the row's kind demands.
 */
export async function rowEvent(
  block: BlockView,
  i: number,
  runtime: Pick<Runtime, 'sha256'>,
): Promise<StreamEvent> {
  const did = block.didAt(i)
  if (!isDid(did)) throw new Error('the row has no valid DID')
  const time = displayTime(block.indexedAtAt(i) || block.witnessedAtAt(i))
  const envelope = { seq: block.seqAt(i), did, time }
  const payload = block.payloadAt(i)
  const operation = operationOf[block.kindAt(i)]
  if (operation === undefined) return markerEvent(block.kindAt(i), envelope, readObject(payload))

  const collection = block.collectionAt(i)
  const rkey = block.rkeyAt(i)
  if (!isNsid(collection) || !isRecordKey(rkey)) throw new Error('the row has no valid record path')
  const commit = { kind: 'commit', ...envelope, rev: block.revAt(i), operation, collection, rkey } as const
  if (operation === 'delete') return commit
  const record = readObject(payload)
  return { ...commit, cid: toString(fromDigest(dagCbor, await runtime.sha256(payload))), record }
}

/** Unix microseconds as the stream writes times: RFC 3339, UTC, six fractional digits. */
function displayTime(micros: number): string {
  const seconds = new Date(Math.floor(micros / 1000)).toISOString().slice(0, 19)
  const fraction = ((micros % 1_000_000) + 1_000_000) % 1_000_000
  return `${seconds}.${String(fraction).padStart(6, '0')}Z`
}

type Envelope = Pick<StreamEvent, 'seq' | 'did' | 'time'>

function markerEvent(kind: RowKind, envelope: Envelope, body: Record<string, unknown>): StreamEvent {
  switch (eventKindOf[kind]) {
    case 'identity':
      return readMarker('identity', envelope, body)
    case 'account':
      return readMarker('account', envelope, body)
    default:
      return readMarker('sync', envelope, body)
  }
}

function readObject(cbor: Uint8Array): Record<string, unknown> {
  const value: unknown = JSON.parse(recordCborToJson(cbor))
  if (!isObject(value)) throw new Error('the payload is not a map')
  return value
}

/**
 * An identity, account or sync event out of its envelope and the upstream event inside, which carries the relay's
 * `seq` and `time`. Fields of the upstream event that the stream does not know are left out.
 * @throws Error when a required field is missing or of another type.
 */
export function readMarker(
  kind: Exclude<EventKind, 'commit'>,
  envelope: Envelope,
  body: Record<string, unknown>,
): StreamEvent {
  const { did, seq, time, handle, status, active, rev, blocks } = body
  if (!isDid(did) || typeof seq !== 'number' || typeof time !== 'string') {
    throw new Error(`the ${kind} event lacks did, seq or time`)
  }
  const upstream = { did, seq, time }
  if (kind === 'identity') {
    return { kind, ...envelope, identity: { ...upstream, ...(typeof handle === 'string' && { handle }) } }
  }
  if (kind === 'account') {
    if (typeof active !== 'boolean') throw new Error('the account event lacks active')
    return {
      kind,
      ...envelope,
      account: { ...upstream, active, ...(typeof status === 'string' && { status }) },
    }
  }
  if (typeof rev !== 'string' || !isObject(blocks) || typeof blocks['$bytes'] !== 'string') {
    throw new Error('the sync event lacks rev or blocks')
  }
  return { kind, ...envelope, sync: { ...upstream, rev, blocks: { $bytes: blocks['$bytes'] } } }
}
