/**
 * Turns a row into the text of one `subscribeEvents` message (segment-format.md 14). Done once for every row, however
 * many subscribers receive it: the record arrives as finished JSON text and is spliced in.
 */
import { hash } from 'node:crypto'
import { decode, fromBytes, isBytes, toBytes } from '@atcute/cbor'
import { CODEC_DCBOR, fromDigest, toString } from '@atcute/cid'
import { recordCborToJson } from '@tributary/protocol'
import { type Row, rowKind } from '@tributary/segment'

const head = '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#'

/**
 * The JSON text of a row's message.
 * @param recordJson the record as JSON, where the caller has it already; else it is made from the payload.
 * @throws RecordError, or another error of the CBOR decoder, when the payload is not what the kind says.
 */
export function renderRow(row: Row, recordJson?: string): string {
  const envelope = `"seq":${row.seq},"did":${quote(row.did)},"time":"${displayTime(row)}"`
  switch (row.kind) {
    case rowKind.create:
    case rowKind.createResync:
      return `${head}commit",${envelope},${operation(row, 'create')}${content(row, recordJson)}}}`
    case rowKind.update:
      return `${head}commit",${envelope},${operation(row, 'update')}${content(row, recordJson)}}}`
    case rowKind.delete:
      return `${head}commit",${envelope},${operation(row, 'delete')}}}`
    case rowKind.identity:
      return `${head}identity",${envelope},"identity":${inner(row, ['did', 'handle', 'seq', 'time'])}}}`
    case rowKind.account:
      return `${head}account",${envelope},"account":${inner(row, ['active', 'did', 'seq', 'status', 'time'])}}}`
    case rowKind.sync:
      return `${head}sync",${envelope},"sync":${inner(row, ['blocks', 'did', 'rev', 'seq', 'time'])}}}`
  }
}

/** A notice to a subscriber. */
export interface Info {
  name: 'OutdatedCursor' | 'FutureCursor' | 'UnreadableEvents' | 'UnwatchedCollections' | 'Progress'
  message: string
  /** With `UnreadableEvents`: the events that are left out, both ends included. */
  firstSeq?: number
  lastSeq?: number
  /** With `Progress`: everything up to here has been sent, or was not asked for. */
  seq?: number
  /** With `UnwatchedCollections`: collections of the filter of which nothing will come. */
  collections?: readonly string[]
}

/** An `#info` message, which has no seq of its own. */
export function renderInfo(info: Info): string {
  return `${head}info",${JSON.stringify(info).slice(1)}}`
}

/** The last message of a connection that we end. */
export function renderError(error: string, message: string): string {
  return JSON.stringify({ $type: 'error', error, message })
}

function operation(row: Row, name: string): string {
  return `"rev":${quote(row.rev)},"operation":"${name}","collection":${quote(row.collection)},"rkey":${quote(row.rkey)}`
}

function content(row: Row, recordJson: string | undefined): string {
  return `,"cid":"${recordCid(row.payload)}","record":${recordJson ?? recordCborToJson(row.payload)}`
}

/** The CID of a record is not stored: it is the hash of the payload (segment-format.md 5.2). */
function recordCid(payload: Uint8Array): string {
  return toString(fromDigest(CODEC_DCBOR, hash('sha256', payload, 'buffer')))
}

/** The upstream event inside a marker row, without fields that the lexicon does not know. */
function inner(row: Row, fields: readonly string[]): string {
  const body = decode(row.payload) as Record<string, unknown> // a map: the ingest encoded it from one
  const known = fields.filter((field) => body[field] !== undefined)
  return JSON.stringify(Object.fromEntries(known.map((field) => [field, asJson(body[field])])))
}

function asJson(value: unknown): unknown {
  return isBytes(value) ? { $bytes: toBytes(fromBytes(value)).$bytes } : value
}

let lastMicros = -1
let lastTime = ''

/** UTC with exactly six fractional digits. Rows of one batch share their time, so the last text is kept. */
function displayTime(row: Row): string {
  const micros = row.indexedAt === 0 ? row.witnessedAt : row.indexedAt
  if (micros !== lastMicros) {
    const millis = Math.floor(micros / 1000)
    const rest = String(micros - millis * 1000).padStart(3, '0')
    lastTime = `${new Date(millis).toISOString().slice(0, -1)}${rest}Z`
    lastMicros = micros
  }
  return lastTime
}

const plainText = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/

/** Identifiers hardly ever need escaping, and a test is cheaper than JSON.stringify. */
function quote(text: string): string {
  return plainText.test(text) ? `"${text}"` : JSON.stringify(text)
}
