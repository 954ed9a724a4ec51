import { isDid, isNsid, isRecordKey, limits, type StreamEvent } from '@tributary/protocol'
import { isObject } from './json.ts'
import { displayTime, readMarker } from './marker.ts'
import { firstTimeSeq } from './recent-events.ts'

/** The payload itself, and a body within it. */
const envelopeLevels = 2
/** How far the clock of a server may be ahead of ours. */
const aheadMsMax = 24 * 3_600_000

/** One text message of the live stream, decoded. */
export type LiveMessage =
  | { type: 'event'; event: StreamEvent }
  | { type: 'info'; name: string; message: string | undefined }
  /** Everything that was asked for up to here has been sent. */
  | { type: 'progress'; seq: number }
  /** Events of the archive that the server cannot read, both ends included. */
  | { type: 'unreadable'; firstSeq: number; lastSeq: number; detail: string }
  /** Terminal: the server ends the stream after it. */
  | { type: 'error'; error: string; message: string | undefined }
  /** Not usable. `seq` is known when it could be read, and then moves the cursor like any other. */
  | { type: 'malformed'; seq: number | undefined; detail: string }

/** Decodes a message of `subscribeEvents`, whatever the server's namespace. Never throws. */
export function readMessage(text: string): LiveMessage {
  let seq: number | undefined
  try {
    const frame: unknown = JSON.parse(text)
    if (!isObject(frame)) throw new Error('the message is not an object')
    if (frame['$type'] === 'error') {
      return { type: 'error', error: textOf(frame['error']) ?? 'Error', message: textOf(frame['message']) }
    }
    const payload = frame['payload']
    if (frame['$type'] !== 'message' || !isObject(payload)) throw new Error('the message has no payload')
    const kind = textOf(payload['$type'])?.split('#')[1]
    if (kind === 'info' && payload['name'] === 'Progress') {
      return { type: 'progress', seq: seqOf(payload['seq']) }
    }
    if (kind === 'info' && payload['name'] === 'UnreadableEvents') {
      const [firstSeq, lastSeq] = [seqOf(payload['firstSeq']), seqOf(payload['lastSeq'])]
      const detail = textOf(payload['message']) ?? 'the server cannot read these events'
      return { type: 'unreadable', firstSeq, lastSeq, detail }
    }
    if (kind === 'info') {
      return { type: 'info', name: textOf(payload['name']) ?? '', message: textOf(payload['message']) }
    }
    seq = seqOf(payload['seq'])
    return { type: 'event', event: readEvent(kind, seq, payload) }
  } catch (error) {
    return { type: 'malformed', seq, detail: error instanceof Error ? error.message : String(error) }
  }
}

/**
 * Decodes a message of Jetstream v1. The seq is that of the message where it has one, as with servers of version 2, and
 * else its time in microseconds, which is what such a server takes as a cursor. Never throws.
 */
export function readMessageV1(text: string): LiveMessage {
  let seq: number | undefined
  try {
    const frame: unknown = JSON.parse(text)
    if (!isObject(frame)) throw new Error('the message is not an object')
    const { did, kind, time_us: micros } = frame
    if (typeof micros !== 'number' || !Number.isSafeInteger(micros))
      throw new Error('the event has no time_us')
    seq = frame['cursor'] === undefined ? timeSeqOf(micros) : seqOf(frame['cursor'])
    const time = displayTime(micros)
    const body = kind === 'commit' && isObject(frame['commit']) ? frame['commit'] : frame
    return { type: 'event', event: readEvent(textOf(kind), seq, { ...body, did, time }) }
  } catch (error) {
    return { type: 'malformed', seq, detail: error instanceof Error ? error.message : String(error) }
  }
}

function readEvent(kind: string | undefined, seq: number, payload: Record<string, unknown>): StreamEvent {
  const { did, time } = payload
  if (!isDid(did) || typeof time !== 'string') throw new Error('the event lacks did or time')
  const envelope = { seq, did, time }
  // As in the archive. Whoever walks through a value that is nested without end needs a stack without end.
  if (isDeeper(payload, limits.cborDepth + envelopeLevels))
    throw new Error(`it is nested over ${limits.cborDepth} levels`)
  switch (kind) {
    case 'commit':
      return readCommit(envelope, payload)
    case 'identity':
    case 'account':
    case 'sync': {
      const body = payload[kind]
      if (!isObject(body)) throw new Error(`the event lacks ${kind}`)
      return readMarker(kind, envelope, body)
    }
    default:
      throw new Error(`unknown kind of event ${kind}`)
  }
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1))
}

function readCommit(
  envelope: Pick<StreamEvent, 'seq' | 'did' | 'time'>,
  payload: Record<string, unknown>,
): StreamEvent {
  const { rev, operation, collection, rkey, cid, record } = payload
  if (typeof rev !== 'string' || !isNsid(collection) || !isRecordKey(rkey)) {
    throw new Error('the commit lacks rev, collection or rkey')
  }
  if (operation !== 'create' && operation !== 'update' && operation !== 'delete') {
    throw new Error('the commit has an unknown operation')
  }
  const commit = { kind: 'commit', ...envelope, rev, operation, collection, rkey } as const
  if (operation === 'delete') return commit
  if (typeof cid !== 'string' || !isObject(record)) throw new Error('the commit lacks cid or record')
  return { ...commit, cid, record }
}

function seqOf(seq: unknown): number {
  // What is larger stands for a time where it is a cursor.
  if (!Number.isSafeInteger(seq) || !(Number(seq) >= 1 && Number(seq) < firstTimeSeq))
    throw new Error('the event has no seq')
  return Number(seq)
}

/** A time of the future as a cursor would make every later event look old. */
function timeSeqOf(micros: number): number {
  if (micros < 1 || micros > (Date.now() + aheadMsMax) * 1000)
    throw new Error('the event has a time of the future')
  return micros
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
