/**
 * The one reader of messages. It takes strict DRISL only: two maps whose keys are in canonical order and do not repeat,
 * safe integers, whole CIDs, valid UTF-8, within bounds of depth, fields and values. Whatever it takes, any decoder in
 * use reads, and writes as the same bytes again; whatever it refuses, nobody sees.
 * Unknown fields are stepped over and survive, because the bytes are passed on as they came.
 */
import { isDatetime, isDid, limits, type Did, type Tid } from '@tributary/protocol'
import type { Block } from './car.ts'
import { CborReader, tidAt } from './cbor-reader.ts'
import type { Message, MessageBytes, RawOp } from './message.ts'
import { refuse, RefusedError, type Refusal } from './refusal.ts'

/** Most fields of one map: far above what any message has. */
export const fieldsMax = 64
/** Most values in unknown fields and in lists of one message: some milliseconds of work. */
const valuesMax = 10_000
/** Most bytes of text in one message, the paths of its operations included, which are 170 kB at most. */
const textBytesMax = 512 * 1024
const timeBytesMax = 64
/** Room that each seq counts for: whoever passes the message on puts another one in its place. */
const seqBytesMax = 9

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
  reader.textBytesLeft = textBytesMax
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

/** The fields of any body, as far as they were there. */
class Body {
  readonly start: number
  upstreamSeq: number | undefined = undefined
  seqStart = 0
  seqEnd = 0
  did: Did | undefined = undefined
  time: string | undefined = undefined
  hasRepo = false
  hasDid = false

  constructor(reader: CborReader) {
    this.start = reader.at
  }

  readField(reader: CborReader, key: string): void {
    if (key === 'seq') this.#readSeq(reader)
    else if (key === 'time') this.time = readTime(reader)
    else if (key === 'repo') this.hasRepo = this.#readDid(reader)
    else if (key === 'did') this.hasDid = this.#readDid(reader)
    else reader.skip(false, 2)
  }

  #readSeq(reader: CborReader): void {
    this.seqStart = reader.at
    this.upstreamSeq = reader.unsigned()
    this.seqEnd = reader.at
    if (this.upstreamSeq < 1) reader.fail('seq is below 1')
    const bytesMax = reader.bytes.length - (this.seqEnd - this.seqStart) + seqBytesMax
    if (bytesMax > limits.messageBytes)
      refuse('oversize', `the message has ${bytesMax} bytes with another seq`)
  }

  /** Kinds name the account by one of two fields. Somebody else may look for the other, so both must say the same. */
  #readDid(reader: CborReader): true {
    const did = readDid(reader)
    if (this.did !== undefined && did !== this.did) reader.fail('the event names two accounts')
    this.did = did
    return true
  }
}

class CommitBody extends Body {
  revAt: number | undefined = undefined
  sinceAt: number | undefined = undefined
  commitAt: number | undefined = undefined
  prevDataAt = 0
  blocks: Block | undefined = undefined
  ops: RawOp[] | undefined = undefined
  tooBig: boolean | undefined = undefined
  rebase: boolean | undefined = undefined
  hasBlobs = false

  override readField(reader: CborReader, key: string): void {
    if (key === 'rev') this.revAt = reader.tid()
    else if (key === 'since') this.sinceAt = reader.tryNull() ? 0 : reader.tid()
    else if (key === 'commit') this.commitAt = reader.link()
    else if (key === 'prevData') this.prevDataAt = readNullableLink(reader)
    else if (key === 'blocks') this.blocks = readBlocks(reader, limits.commitBlocksBytes)
    else if (key === 'ops') this.ops = readOps(reader)
    else if (key === 'tooBig') this.tooBig = reader.boolean()
    else if (key === 'rebase') this.rebase = reader.boolean()
    else if (key === 'blobs') this.hasBlobs = skipLinks(reader)
    else super.readField(reader, key)
  }
}

/** Reads a body up to the end of the message. @param readField must step over the value of the field. */
function readBody(reader: CborReader, readField: (key: string) => void): void {
  reader.fields(fieldsMax, readField)
  reader.finish()
}

/** Written out instead of using `ofAccount`, because nearly all messages are commits and this takes half the time. */
function readCommit(reader: CborReader): Message {
  const body = new CommitBody(reader)
  readBody(reader, (key) => body.readField(reader, key))
  if (!body.hasRepo) refuse('malformed-event', 'repo is missing')
  if (!body.hasBlobs) refuse('malformed-event', 'blobs is missing')
  return {
    kind: 'commit',
    ok: true,
    bytes: reader.bytes,
    bodyStart: body.start,
    upstreamSeq: need(body.upstreamSeq, 'seq'),
    seqStart: body.seqStart,
    seqEnd: body.seqEnd,
    did: need(body.did, 'repo'),
    time: need(body.time, 'time'),
    revAt: need(body.revAt, 'rev'),
    sinceAt: need(body.sinceAt, 'since'),
    commitAt: need(body.commitAt, 'commit'),
    prevDataAt: body.prevDataAt,
    blocks: need(body.blocks, 'blocks'),
    ops: need(body.ops, 'ops'),
    isFlagged: need(body.tooBig, 'tooBig') || need(body.rebase, 'rebase'),
  }
}

function readSync(reader: CborReader): Message {
  let rev: Tid | undefined
  let blocks: Block | undefined
  const body = new Body(reader)
  readBody(reader, (key) => {
    if (key === 'rev') rev = tidAt(reader.bytes, reader.tid())
    else if (key === 'blocks') blocks = readBlocks(reader, limits.syncBlocksBytes)
    else body.readField(reader, key)
  })
  return {
    kind: 'sync',
    ...ofAccount(reader, body),
    rev: need(rev, 'rev'),
    blocks: need(blocks, 'blocks'),
  }
}

function readIdentity(reader: CborReader): Message {
  let handle: string | undefined
  const body = new Body(reader)
  readBody(reader, (key) => {
    if (key === 'handle') handle = reader.text()
    else body.readField(reader, key)
  })
  return { kind: 'identity', ...ofAccount(reader, body), handle }
}

function readAccount(reader: CborReader): Message {
  let active: boolean | undefined
  let status: string | undefined
  let fields = 0
  const body = new Body(reader)
  readBody(reader, (key) => {
    fields++
    if (key === 'active') active = reader.boolean()
    else if (key === 'status') status = reader.text()
    else body.readField(reader, key)
  })
  // A relay that passes the event on may have to put a status in.
  if (status === undefined && fields === fieldsMax) refuse('malformed-event', 'there is no room for a status')
  return { kind: 'account', ...ofAccount(reader, body), active: need(active, 'active'), status }
}

/** What is common to the messages that name their account by `did`. */
function ofAccount({ bytes }: CborReader, body: Body) {
  if (!body.hasDid) refuse('malformed-event', 'did is missing')
  const time = need(body.time, 'time')
  if (!isDatetime(time)) refuse('malformed-event', 'time is not a datetime')
  return {
    ok: true as const,
    bytes,
    bodyStart: body.start,
    upstreamSeq: need(body.upstreamSeq, 'seq'),
    seqStart: body.seqStart,
    seqEnd: body.seqEnd,
    did: need(body.did, 'did'),
    time,
  }
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
  const texts = new Map<string, string>()
  readBody(reader, (key) => {
    if (noticeTexts.has(key)) texts.set(key, reader.text())
    else reader.skip(false, 2)
  })
  return { ok: true, bytes: reader.bytes, bodyStart, texts }
}

function readUnknown(reader: CborReader, op: number, t: string | undefined): Message {
  const body = new Body(reader)
  readBody(reader, (key) => body.readField(reader, key))
  const { start: bodyStart, upstreamSeq } = body
  return { kind: 'unknown', ok: true, bytes: reader.bytes, bodyStart, op, t, upstreamSeq }
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
  let path: Block | undefined
  let cidAt: number | undefined
  let prevAt = 0
  reader.fields(fieldsMax, (key) => {
    if (key === 'action') action = reader.word()
    else if (key === 'path') path = { start: reader.textSpan(), end: reader.at }
    else if (key === 'cid') cidAt = readNullableLink(reader)
    else if (key === 'prev') prevAt = readNullableLink(reader)
    else reader.skip(false, 4)
  })
  if (action === undefined || path === undefined || cidAt === undefined)
    return reader.fail('an operation misses a field')
  return { action, path, cidAt, prevAt }
}
