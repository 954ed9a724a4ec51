/**
 * Reads the header and the body of a frame in place. The fields of the two maps may come in any order, as the protocol
 * allows, but not twice; fields that are not known are stepped over, and checked to be DAG-CBOR that a consumer can read.
 */
import { isDid, isTid, limits, type Did, type Tid } from '@tributary/protocol'
import type { Block } from './car.ts'
import { CborReader } from './cbor-reader.ts'
import { digestAt, type Digest } from './digest.ts'
import { refuse } from './refusal.ts'

export interface FrameHeader {
  op: number
  t: string | undefined
}

/** The fields of a body, as far as they were there. Which of them a kind of message needs is for its reader to say. */
export class FrameBody {
  upstreamSeq: number | undefined = undefined
  seqStart = 0
  seqEnd = 0
  did: Did | undefined = undefined
  time: string | undefined = undefined
  rev: Tid | undefined = undefined
  since: Tid | null | undefined = undefined
  commit: Digest | undefined = undefined
  prevData: Digest | undefined = undefined
  blocks: Block | undefined = undefined
  ops: RawOp[] | undefined = undefined
  tooBig: boolean | undefined = undefined
  rebase: boolean | undefined = undefined
  hasBlobs = false
  active: boolean | undefined = undefined
  /** `handle`, `status`, `name`, `message` and `error`. */
  readonly texts: Record<string, string> = {}
}

/** An operation as sent: only the types of its fields are checked. */
export interface RawOp {
  action: string
  path: string
  /** Where the digests of the CIDs stand in the frame; 0 for none. */
  cidAt: number
  prevAt: number
}

/** A reader of the frame, for its header and then its body. */
export function frameReader(frame: Uint8Array): CborReader {
  const bytes = Buffer.isBuffer(frame) ? frame : Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength)
  return new CborReader(bytes, 0, bytes.length, 'malformed-frame')
}

/** @throws RefusedError `malformed-frame`. */
export function readHeader(reader: CborReader): FrameHeader {
  let op: number | undefined
  let t: string | undefined
  readFields(reader, (key) => {
    if (key === 'op') op = reader.integer()
    else if (key === 't') t = reader.text()
    else reader.skip(false, 2)
  })
  if (op === undefined || (op === 1 && t === undefined)) return reader.fail('the header has no op or no type')
  return { op, t }
}

/** @throws RefusedError `malformed-frame`, `malformed-event`, and `oversize` for too many operations. */
export function readCommitBody(reader: CborReader): FrameBody {
  return readBody(reader, (key, body) => {
    if (key === 'repo') body.did = readDid(reader)
    else if (key === 'rev') body.rev = readTid(reader)
    else if (key === 'since') body.since = reader.tryNull() ? null : readTid(reader)
    else if (key === 'commit') body.commit = digestAt(reader.bytes, reader.link())
    else if (key === 'prevData')
      body.prevData = reader.tryNull() ? undefined : digestAt(reader.bytes, reader.link())
    else if (key === 'blocks') body.blocks = { start: reader.byteString(), end: reader.at }
    else if (key === 'ops') body.ops = readOps(reader)
    else if (key === 'tooBig') body.tooBig = reader.boolean()
    else if (key === 'rebase') body.rebase = reader.boolean()
    else if (key === 'blobs') body.hasBlobs = skipLinks(reader)
    else return false
    return true
  })
}

/** @throws RefusedError `malformed-frame` or `malformed-event`. */
export function readSyncBody(reader: CborReader): FrameBody {
  return readBody(reader, (key, body) => {
    if (key === 'did') body.did = readDid(reader)
    else if (key === 'rev') body.rev = readTid(reader)
    else if (key === 'blocks') body.blocks = { start: reader.byteString(), end: reader.at }
    else return false
    return true
  })
}

/** Reads the body of any of the other kinds of message. @throws RefusedError `malformed-frame` or `malformed-event`. */
export function readPlainBody(reader: CborReader, ...texts: string[]): FrameBody {
  return readBody(reader, (key, body) => {
    if (key === 'did') body.did = readDid(reader)
    else if (key === 'active') body.active = reader.boolean()
    else if (texts.includes(key)) body.texts[key] = reader.text()
    else return false
    return true
  })
}

function readBody(reader: CborReader, readField: (key: string, body: FrameBody) => boolean): FrameBody {
  const body = new FrameBody()
  reader.mistyped = 'malformed-event'
  readFields(reader, (key) => {
    if (readField(key, body)) return
    if (key === 'time') body.time = reader.text()
    else if (key === 'seq') readSeq(reader, body)
    else reader.skip(false, 2)
  })
  reader.finish()
  return body
}

/** Hands each key of a map to `readValue`, which must step over its value. Refuses keys that come twice. */
function readFields(reader: CborReader, readValue: (key: string) => void): void {
  const seen: string[] = []
  let largest = ''
  const count = reader.map()
  if (count > fieldsMax) reader.fail(`a map has ${count} fields`)
  for (let left = count; left > 0; left--) {
    const key = reader.name()
    // Keys in canonical order cannot repeat; the search is for the others.
    if (key.length > largest.length || (key.length === largest.length && key > largest)) largest = key
    else if (seen.includes(key)) reader.fail('a field comes twice')
    seen.push(key)
    readValue(key)
  }
}

/** Far above what any message has, and few enough to look through. */
const fieldsMax = 64

function readSeq(reader: CborReader, body: FrameBody): void {
  body.seqStart = reader.at
  body.upstreamSeq = reader.unsigned()
  body.seqEnd = reader.at
  if (body.upstreamSeq < 1) reader.fail('seq is below 1')
}

function readDid(reader: CborReader): Did {
  const text = reader.text()
  return isDid(text) ? text : reader.fail('the account is not a DID')
}

function readTid(reader: CborReader): Tid {
  const text = reader.text()
  return isTid(text) ? text : reader.fail('a revision is not a TID')
}

/** Where the digest of a link stands, 0 for null. */
function readNullableLink(reader: CborReader): number {
  return reader.tryNull() ? 0 : reader.link()
}

function skipLinks(reader: CborReader): true {
  for (let left = reader.array(); left > 0; left--) reader.skipLink()
  return true
}

function readOps(reader: CborReader): RawOp[] {
  const count = reader.array()
  if (count > limits.opsPerCommit) refuse('oversize', `the commit has ${count} operations`)
  return Array.from({ length: count }, () => readOp(reader))
}

function readOp(reader: CborReader): RawOp {
  let action: string | undefined
  let path: string | undefined
  let cidAt: number | undefined
  let prevAt = 0
  readFields(reader, (key) => {
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
