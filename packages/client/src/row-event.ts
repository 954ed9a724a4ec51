/**
 * Events of the archive as views of a decoded block: a field is read when it is asked for, so a row whose record nobody
 * looks at costs next to nothing. A view keeps its block in memory.
 */
import { fromDigest, toString } from '@atcute/cid'
import {
  type AccountEvent,
  type ByteWriter,
  type CommitEvent,
  type Did,
  type EventKind,
  type IdentityEvent,
  isDid,
  isNsid,
  isRecordKey,
  isTid,
  limits,
  type Nsid,
  recordCborToValue,
  type RecordKey,
  type StreamEvent,
  type SyncEvent,
  writeRecordJson,
} from '@tributary/protocol'
import type { BlockView, RowKind } from '@tributary/segment'
import { StreamError } from './errors.ts'
import { displayTime, readMarker } from './marker.ts'
import { writeCommitHead } from './row-json.ts'
import type { Runtime } from './runtime.ts'

const dagCbor = 0x71
/** Version, codec, hash and length of a CID of DAG-CBOR and SHA-256, with room for the digest. */
const cidBytes = Uint8Array.of(1, dagCbor, 0x12, 32, ...new Uint8Array(32))
const cidDigestAt = 4
/** What stands before and after the CID of an event. */
const encoder = new TextEncoder()
const cidField = encoder.encode(',"cid":"b')
const recordField = encoder.encode('","record":')
const closeMap = 125
const inspectSymbol: symbol = Symbol.for('nodejs.util.inspect.custom')

/** The event kind of each row kind, segment-format.md 5.1: kind 7 is a commit like the others. */
export const eventKindOf: Readonly<Record<RowKind, EventKind>> = {
  1: 'commit',
  2: 'commit',
  3: 'commit',
  4: 'identity',
  5: 'account',
  6: 'sync',
  7: 'commit',
}

type Hash = Runtime['sha256']

/** What all rows have. */
abstract class RowView {
  abstract readonly kind: EventKind
  readonly seq: number
  protected readonly block: BlockView
  protected readonly row: number

  constructor(block: BlockView, row: number, seq: number) {
    this.block = block
    this.row = row
    this.seq = seq
  }

  get did(): Did {
    const did = this.block.didAt(this.row)
    if (!isDid(did)) throw this.malformed('it has no valid DID')
    return did
  }

  get time(): string {
    return displayTime(this.block.indexedAtAt(this.row) || this.block.witnessedAtAt(this.row))
  }

  /** Writes what `JSON.stringify` of the event gives. @throws StreamError `MalformedEvent` after some of it was written. */
  abstract writeJson(out: ByteWriter): void

  /** Bytes of what the row has besides its columns. */
  get payloadBytes(): number {
    return this.block.payloadBytesAt(this.row)
  }

  /** All fields, for `JSON.stringify`. @throws StreamError `MalformedEvent` */
  abstract toJSON(): StreamEvent

  /** What Node prints of it. */
  [inspectSymbol](): unknown {
    try {
      return this.toJSON()
    } catch (error) {
      return error
    }
  }

  /** @throws StreamError `MalformedEvent` for what no commit can carry (Sync 1.1). */
  protected get payload(): Uint8Array {
    const bytes = this.payloadBytes
    if (bytes > limits.commitBlocksBytes) throw this.malformed(`it has ${bytes} bytes`)
    return this.block.payloadAt(this.row)
  }

  protected malformed(what: string, cause?: unknown): StreamError {
    return new StreamError('MalformedEvent', `the row of seq ${this.seq} is malformed: ${what}`, { cause })
  }
}

/** A deleted record, and what a created one has besides its record. */
class DeleteView extends RowView implements CommitEvent {
  readonly kind = 'commit'
  readonly operation: CommitEvent['operation']

  constructor(block: BlockView, row: number, seq: number, operation: CommitEvent['operation']) {
    super(block, row, seq)
    this.operation = operation
  }

  get collection(): Nsid {
    const collection = this.block.collectionAt(this.row)
    if (!isKnownNsid(collection)) throw this.malformed('it has no valid collection')
    return collection
  }

  get rkey(): RecordKey {
    const rkey = this.block.rkeyAt(this.row)
    if (!isRecordKey(rkey)) throw this.malformed('it has no valid record key')
    return rkey
  }

  get rev(): string {
    return this.block.revAt(this.row)
  }

  writeJson(out: ByteWriter): void {
    this.writeHead(out)
    out.byte(closeMap)
  }

  toJSON(): CommitEvent {
    const { kind, seq, did, time, rev, operation, collection, rkey } = this
    return { kind, seq, did, time, rev, operation, collection, rkey }
  }

  /** Writes the fields of a delete, without the brace at the end. */
  protected writeHead(out: ByteWriter): void {
    const start = out.length
    if (writeCommitHead(this.block, this.row, this.seq, this.operation, out)) return
    out.cut(start)
    out.text(this.headJson)
  }

  /** The same for texts of any form. DIDs, NSIDs and record keys have no sign to escape. */
  protected get headJson(): string {
    const { seq, did, time, rev, operation, collection, rkey } = this
    const revJson = isTid(rev) ? `"${rev}"` : JSON.stringify(rev)
    return `{"kind":"commit","seq":${seq},"did":"${did}","time":"${time}","rev":${revJson},"operation":"${operation}","collection":"${collection}","rkey":"${rkey}"`
  }
}

/** A created or updated record. */
class PutView extends DeleteView {
  readonly #hash: Hash
  #record: Record<string, unknown> | undefined

  constructor(block: BlockView, row: number, seq: number, operation: CommitEvent['operation'], hash: Hash) {
    super(block, row, seq, operation)
    this.#hash = hash
  }

  get cid(): string {
    return toString(fromDigest(dagCbor, this.#hash(this.payload)))
  }

  get record(): Record<string, unknown> {
    this.#record ??= this.#read()
    return this.#record
  }

  override writeJson(out: ByteWriter): void {
    const { payload } = this
    if (!isMap(payload)) throw this.malformed('its record is not a map')
    this.writeHead(out)
    out.bytes(cidField)
    cidBytes.set(this.#hash(payload), cidDigestAt)
    out.base32(cidBytes)
    out.bytes(recordField)
    try {
      writeRecordJson(payload, out)
    } catch (cause) {
      throw this.malformed(messageOf(cause), cause)
    }
    out.byte(closeMap)
  }

  /** Keeps no record that it decodes: it may take fifty times what the row does, and the view may be kept for long. */
  override toJSON(): CommitEvent {
    return { ...super.toJSON(), cid: this.cid, record: this.#record ?? this.#read() }
  }

  #read(): Record<string, unknown> {
    const { payload } = this
    // Before it is decoded, for bytes and links become objects, too.
    if (!isMap(payload)) throw this.malformed('its record is not a map')
    try {
      return recordCborToValue(payload) as Record<string, unknown> // of a map
    } catch (cause) {
      throw this.malformed(messageOf(cause), cause)
    }
  }
}

/** An identity, account or sync event. */
abstract class MarkerView extends RowView {
  abstract override readonly kind: Exclude<EventKind, 'commit'>
  #event: StreamEvent | undefined

  toJSON(): StreamEvent {
    this.#event ??= this.#read()
    return this.#event
  }

  writeJson(out: ByteWriter): void {
    out.text(JSON.stringify(this.toJSON()))
  }

  #read(): StreamEvent {
    const { kind, seq, did, time, payload } = this
    try {
      if (!isMap(payload)) throw new Error('its payload is not a map')
      return readMarker(kind, { seq, did, time }, recordCborToValue(payload) as Record<string, unknown>) // of a map
    } catch (cause) {
      throw this.malformed(messageOf(cause), cause)
    }
  }
}

class IdentityView extends MarkerView implements IdentityEvent {
  readonly kind = 'identity'
  get identity(): IdentityEvent['identity'] {
    return (this.toJSON() as IdentityEvent).identity // of its kind
  }
}

class AccountView extends MarkerView implements AccountEvent {
  readonly kind = 'account'
  get account(): AccountEvent['account'] {
    return (this.toJSON() as AccountEvent).account // of its kind
  }
}

class SyncView extends MarkerView implements SyncEvent {
  readonly kind = 'sync'
  get sync(): SyncEvent['sync'] {
    return (this.toJSON() as SyncEvent).sync // of its kind
  }
}

/** The event of an archive row, with what the live stream sends for it. Nothing of the row is checked yet. */
export function rowEvent(block: BlockView, row: number, seq: number, hash: Hash): StreamEvent {
  switch (block.kindAt(row)) {
    case 1:
    case 7:
      return new PutView(block, row, seq, 'create', hash)
    case 2:
      return new PutView(block, row, seq, 'update', hash)
    case 3:
      return new DeleteView(block, row, seq, 'delete')
    case 4:
      return new IdentityView(block, row, seq)
    case 5:
      return new AccountView(block, row, seq)
    case 6:
      return new SyncView(block, row, seq)
  }
}

/**
 * The event with all of its fields as an object of its own, which keeps no block in memory and can be spread and compared.
 * @throws StreamError `MalformedEvent`
 */
export function plainEvent(event: StreamEvent): StreamEvent {
  return event instanceof DeleteView || event instanceof MarkerView ? event.toJSON() : event
}

/** Bytes that `plainEvent` decodes, of a record for the most part; 0 for an event that is an object of its own already. */
export function payloadBytesOf(event: StreamEvent): number {
  return event instanceof RowView ? event.payloadBytes : 0
}

/** Writes an event of any origin as JSON. @throws StreamError `MalformedEvent`, after some of it was written. */
export function writeEvent(event: StreamEvent, out: ByteWriter): void {
  if (event instanceof RowView) event.writeJson(out)
  else out.text(JSON.stringify(event))
}

/** Collections that were found valid. An archive has few, each in many rows. */
const knownNsids = new Set<string>()
const knownNsidsMax = 10_000

function isKnownNsid(text: string): text is Nsid {
  if (knownNsids.has(text)) return true
  if (!isNsid(text)) return false
  // What was cut out of a column's text would keep all of it.
  if (knownNsids.size < knownNsidsMax) knownNsids.add(structuredClone(text))
  return true
}

/** Whether the first byte of DAG-CBOR says that it is a map. */
function isMap(payload: Uint8Array): boolean {
  return (payload[0] ?? 0) >> 5 === 5
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
