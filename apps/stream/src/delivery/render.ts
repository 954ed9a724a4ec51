/**
 * Turns a row into one `subscribeEvents` message (segment-format.md 14). Done once for every row, however many subscribers
 * receive it: a record arrives as finished bytes of JSON and is copied in.
 */
import { decode, fromBytes, isBytes, toBytes } from '@atcute/cbor'
import { headerSize, writeHeader } from '@tributary/fanout'
import { type Row, rowKind } from '@tributary/segment'
import { recordContent } from './record-content.ts'
import { messageOf } from './rendition.ts'

const head = '{"$type":"message","payload":{"$type":"network.social.stream.subscribeEvents#'
const noContent = new Uint8Array(0)
const messageEnd = '}}'

/** The message of a row: text, then content, then two braces. */
export interface RowMessage {
  readonly text: string
  /** CID and record, of rows that have them. */
  readonly content: Uint8Array
}

/**
 * The message of a row.
 * @param content what `recordContent` gives, where the caller has it already; else it is made from the payload, and good
 * until the next call.
 * @throws RecordError, or another error of the CBOR decoder, when the payload is not what the kind says.
 */
export function renderRow(row: Row, content?: Uint8Array): RowMessage {
  const hasRecord = row.kind <= rowKind.update || row.kind === rowKind.createResync
  return { text: textOf(row), content: hasRecord ? (content ?? recordContent(row.payload)) : noContent }
}

export function messageLength({ text, content }: RowMessage): number {
  return Buffer.byteLength(text) + content.length + messageEnd.length
}

/** Writes a message, and returns where it ends. */
export function writeMessage({ text, content }: RowMessage, target: Buffer, offset: number): number {
  let at = offset + target.write(text, offset)
  target.set(content, at)
  at += content.length
  return at + target.write(messageEnd, at, 'latin1')
}

/** A row's message as a whole frame, beside which nothing is left in memory. */
export function frameRow(row: Row): Buffer {
  const message = renderRow(row)
  const length = messageLength(message)
  const frame = Buffer.allocUnsafe(headerSize(length) + length)
  writeMessage(message, frame, writeHeader(frame, 0, 'text', length))
  return frame
}

function textOf(row: Row): string {
  const envelope = `"seq":${row.seq},"did":${quote(row.did)},"time":"${displayTime(row)}"`
  switch (row.kind) {
    case rowKind.create:
    case rowKind.createResync:
      return `${head}commit",${envelope},${operation(row, 'create')}`
    case rowKind.update:
      return `${head}commit",${envelope},${operation(row, 'update')}`
    case rowKind.delete:
      return `${head}commit",${envelope},${operation(row, 'delete')}`
    case rowKind.identity:
      return `${head}identity",${envelope},"identity":${inner(row, ['did', 'handle', 'seq', 'time'])}`
    case rowKind.account:
      return `${head}account",${envelope},"account":${inner(row, ['active', 'did', 'seq', 'status', 'time'])}`
    case rowKind.sync:
      return `${head}sync",${envelope},"sync":${inner(row, ['blocks', 'did', 'rev', 'seq', 'time'])}`
  }
}

/** A row's message as text. */
export function rowText(row: Row): string {
  return Buffer.from(messageOf(frameRow(row))).toString()
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
