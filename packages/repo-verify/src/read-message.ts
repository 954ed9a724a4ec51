/**
 * The one reader of messages. It takes strict DRISL only: two maps whose keys are in canonical order and do not repeat,
 * safe integers, whole CIDs, valid UTF-8, within bounds of depth, fields and values. Whatever it takes, any decoder in
 * use reads, and writes as the same bytes again; whatever it refuses, nobody sees.
 * Unknown fields are stepped over and survive, because the bytes are passed on as they came.
 */
import { isDid, isTid, limits, type Did, type Tid } from '@tributary/protocol'
import type { Block } from './car.ts'
import { CborReader } from './cbor-reader.ts'
import { digestAt, type Digest } from './digest.ts'
import type { Message, MessageBytes, RawOp } from './message.ts'
import { refuse, RefusedError, type Refusal } from './refusal.ts'

/** Far above what any message has. */
const fieldsMax = 64
/** Values in unknown fields and in lists, of one message: some milliseconds of work. */
const valuesMax = 20_000
const timeBytesMax = 64

/** A message that cannot be read. */
export interface UnreadableMessage extends Refusal {
  /** What its header says, such as `#commit`, where that much could be read. */
  type: string | undefined
}

/**
 * Reads one WebSocket message, within some milliseconds whatever its bytes are. Never throws.
 * Reasons of refusal: `malformed-frame`, `malformed-event`, `oversize`.
 */
export function readMessage(bytes: Uint8Array): Message | UnreadableMessage {
  const header: Header = { op: undefined, t: undefined }
  try {
    return readParts(Buffer.isBuffer(bytes) ? bytes : bufferOf(bytes), header)
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error
    return { ok: false, reason: error.reason, detail: error.message, type: header.t }
  }
}

interface Header {
  op: number | undefined
  t: string | undefined
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

function readParts(bytes: Buffer, header: Header): Message {
  if (bytes.length > limits.messageBytes) refuse('oversize', `the message has ${bytes.length} bytes`)
  const reader = new CborReader(bytes, 0, bytes.length, 'malformed-frame')
  reader.skipsLeft = valuesMax
  reader.fields(fieldsMax, (key) => {
    if (key === 'op') header.op = reader.integer()
    else if (key === 't') header.t = reader.text()
    else reader.skip(false, 2)
  })
  const { op, t } = header
  if (op === undefined || (op === 1 && t === undefined)) return reader.fail('the header has no op or no type')
  reader.mistyped = 'malformed-event'
  if (op === -1) return readError(reader)
  switch (op === 1 ? t : undefined) {
    case '#commit':
      return readCommit(reader)
    case '#sync':
      return readSync(reader)
    case '#identity':
      return readIdentity(reader)
    case '#account':
      return readAccount(reader)
    case '#info':
      return readInfo(reader)
    default:
      return readUnknown(reader, op, t)
  }
}

/** What every body has, and the fields of some, as far as they were there. */
class Body implements MessageBytes {
  readonly ok = true
  bytes: Buffer
  readonly bodyStart: number
  readonly fieldStarts: number[] = []
  upstreamSeq: number | undefined = undefined
  seqStart = 0
  seqEnd = 0
  did: Did | undefined = undefined
  time: string | undefined = undefined

  /** Reads a body up to the end of the message. @param readField says whether it has read the value of the field. */
  constructor(reader: CborReader, readField: (key: string) => boolean) {
    this.bytes = reader.bytes
    this.bodyStart = reader.at
    reader.fields(fieldsMax, (key, keyStart) => {
      this.fieldStarts.push(keyStart)
      if (readField(key)) return
      if (key === 'seq') this.#readSeq(reader)
      else if (key === 'time') this.time = readTime(reader)
      else if (key === 'did' || key === 'repo') this.#readDid(reader)
      else reader.skip(false, 2)
    })
    reader.finish()
  }

  #readSeq(reader: CborReader): void {
    this.seqStart = reader.at
    this.upstreamSeq = reader.unsigned()
    this.seqEnd = reader.at
    if (this.upstreamSeq < 1) reader.fail('seq is below 1')
  }

  /** Kinds name the account by one of two fields. Somebody else may look for the other, so both must say the same. */
  #readDid(reader: CborReader): void {
    const did = readDid(reader)
    if (this.did !== undefined && did !== this.did) reader.fail('the event names two accounts')
    this.did = did
  }
}

function readCommit(reader: CborReader): Message {
  let hasRepo = false
  let rev: Tid | undefined
  let since: Tid | null | undefined
  let commit: Digest | undefined
  let prevData: Digest | undefined
  let blocks: Block | undefined
  let ops: RawOp[] | undefined
  let tooBig: boolean | undefined
  let rebase: boolean | undefined
  let hasBlobs = false
  const body = new Body(reader, (key) => {
    if (key === 'rev') rev = readTid(reader)
    else if (key === 'since') since = reader.tryNull() ? null : readTid(reader)
    else if (key === 'commit') commit = digestAt(reader.bytes, reader.link())
    else if (key === 'prevData')
      prevData = reader.tryNull() ? undefined : digestAt(reader.bytes, reader.link())
    else if (key === 'blocks') blocks = readBlocks(reader, limits.commitBlocksBytes)
    else if (key === 'ops') ops = readOps(reader)
    else if (key === 'tooBig') tooBig = reader.boolean()
    else if (key === 'rebase') rebase = reader.boolean()
    else if (key === 'blobs') hasBlobs = skipLinks(reader)
    else {
      hasRepo ||= key === 'repo'
      return false
    }
    return true
  })
  if (!hasRepo) refuse('malformed-event', 'repo is missing')
  if (!hasBlobs) refuse('malformed-event', 'blobs is missing')
  return {
    kind: 'commit',
    ...sequenced(body),
    rev: need(rev, 'rev'),
    since: need(since, 'since'),
    commit: need(commit, 'commit'),
    prevData,
    blocks: need(blocks, 'blocks'),
    ops: need(ops, 'ops'),
    isFlagged: need(tooBig, 'tooBig') || need(rebase, 'rebase'),
  }
}

function readSync(reader: CborReader): Message {
  let rev: Tid | undefined
  let blocks: Block | undefined
  const body = bodyWithDid(reader, (key) => {
    if (key === 'rev') rev = readTid(reader)
    else if (key === 'blocks') blocks = readBlocks(reader, limits.syncBlocksBytes)
    else return false
    return true
  })
  return { kind: 'sync', ...sequenced(body), rev: need(rev, 'rev'), blocks: need(blocks, 'blocks') }
}

function readIdentity(reader: CborReader): Message {
  let handle: string | undefined
  const body = bodyWithDid(reader, (key) => {
    if (key !== 'handle') return false
    handle = reader.text()
    return true
  })
  return { kind: 'identity', ...sequenced(body), handle }
}

function readAccount(reader: CborReader): Message {
  let active: boolean | undefined
  let status: string | undefined
  const body = bodyWithDid(reader, (key) => {
    if (key === 'active') active = reader.boolean()
    else if (key === 'status') status = reader.text()
    else return false
    return true
  })
  return { kind: 'account', ...sequenced(body), active: need(active, 'active'), status }
}

/** A body that names its account by `did`. */
function bodyWithDid(reader: CborReader, readField: (key: string) => boolean): Body {
  let hasDid = false
  const body = new Body(reader, (key) => {
    hasDid ||= key === 'did'
    return readField(key)
  })
  if (!hasDid) refuse('malformed-event', 'did is missing')
  return body
}

function readInfo(reader: CborReader): Message {
  const { texts, ...body } = readTexts(reader)
  return { kind: 'info', ...body, name: need(texts.get('name'), 'name'), message: texts.get('message') }
}

function readError(reader: CborReader): Message {
  const { texts, ...body } = readTexts(reader)
  return { kind: 'error', ...body, error: need(texts.get('error'), 'error'), message: texts.get('message') }
}

const noticeTexts = new Set(['name', 'error', 'message'])

/** The body of a notice, which has no place in the order. */
function readTexts(reader: CborReader): MessageBytes & { texts: Map<string, string> } {
  const bodyStart = reader.at
  const fieldStarts: number[] = []
  const texts = new Map<string, string>()
  reader.fields(fieldsMax, (key, keyStart) => {
    fieldStarts.push(keyStart)
    if (noticeTexts.has(key)) texts.set(key, reader.text())
    else reader.skip(false, 2)
  })
  reader.finish()
  return { ok: true, bytes: reader.bytes, bodyStart, fieldStarts, texts }
}

function readUnknown(reader: CborReader, op: number, t: string | undefined): Message {
  const { bytes, bodyStart, fieldStarts, upstreamSeq } = new Body(reader, () => false)
  return { kind: 'unknown', ok: true, bytes, bodyStart, fieldStarts, op, t, upstreamSeq }
}

function sequenced(body: Body) {
  return {
    ok: true as const,
    bytes: body.bytes,
    bodyStart: body.bodyStart,
    fieldStarts: body.fieldStarts,
    upstreamSeq: need(body.upstreamSeq, 'seq'),
    seqStart: body.seqStart,
    seqEnd: body.seqEnd,
    did: need(body.did, 'did'),
    time: need(body.time, 'time'),
  }
}

function need<T>(value: T | undefined, field: string): T {
  return value === undefined ? refuse('malformed-event', `${field} is missing`) : value
}

function readTime(reader: CborReader): string {
  const start = reader.at
  const time = reader.text()
  return reader.at - start > timeBytesMax ? reader.fail('time is too long') : time
}

function readDid(reader: CborReader): Did {
  const text = reader.text()
  return isDid(text) ? text : reader.fail('the account is not a DID')
}

function readTid(reader: CborReader): Tid {
  const text = reader.text()
  return isTid(text) ? text : reader.fail('a revision is not a TID')
}

function readBlocks(reader: CborReader, bytesMax: number): Block {
  const start = reader.byteString()
  if (reader.at - start > bytesMax) refuse('oversize', 'blocks is too large')
  return { start, end: reader.at }
}

/** Where the digest of a link stands, 0 for null. */
function readNullableLink(reader: CborReader): number {
  return reader.tryNull() ? 0 : reader.link()
}

function skipLinks(reader: CborReader): true {
  const count = reader.array()
  if (count > valuesMax) refuse('oversize', `the commit names ${count} blobs`)
  for (let left = count; left > 0; left--) reader.skipLink()
  return true
}

function readOps(reader: CborReader): RawOp[] {
  const count = reader.array()
  if (count > limits.opsPerCommit) refuse('oversize', `the commit has ${count} operations`)
  const ops: RawOp[] = []
  while (ops.length < count) ops.push(readOp(reader))
  return ops
}

function readOp(reader: CborReader): RawOp {
  let action: string | undefined
  let path: string | undefined
  let cidAt: number | undefined
  let prevAt = 0
  reader.fields(fieldsMax, (key) => {
    if (key === 'action') action = reader.text()
    else if (key === 'path') path = reader.text()
    else if (key === 'cid') cidAt = readNullableLink(reader)
    else if (key === 'prev') prevAt = readNullableLink(reader)
    else reader.skip(false, 4)
  })
  if (action === undefined || path === undefined || cidAt === undefined)
    return reader.fail('an operation misses a field')
  return { action, path, cidAt, prevAt }
}
