/**
 * What events of commits have before their record, as JSON: copied from the bytes of a block without strings in between,
 * wherever the texts have their usual form.
 */
import { type ByteWriter, type CommitEvent, isNsid } from '@tributary/protocol'
import { type BlockView, textColumns } from '@tributary/segment'
import { displaySecond } from './marker.ts'

const encoder = new TextEncoder()
const head = encoder.encode('{"kind":"commit","seq":')
const beforeDid = encoder.encode(',"did":"did:plc:')
const beforeTime = encoder.encode('","time":"')
const beforeRev = encoder.encode('Z","rev":')
const beforeCollection: Readonly<Record<CommitEvent['operation'], Uint8Array>> = {
  create: encoder.encode(',"operation":"create","collection":"'),
  update: encoder.encode(',"operation":"update","collection":"'),
  delete: encoder.encode(',"operation":"delete","collection":"'),
}
const beforeRkey = encoder.encode('","rkey":"')
const [point, quote] = [46, 34]
const microsPerSecond = 1_000_000
const fractionDigits = 6

const plcPrefix = encoder.encode('did:plc:')
const didBytesMax = 2048
/** Signs that a DID of the method plc and a record key may have anywhere. Both may have a few more. */
const didSigns = tableOf('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-')
const rkeySigns = tableOf('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_~-')

/**
 * Bytes of collections that are valid, each at a place that follows from them. An archive has few, each in many rows. One that
 * finds its place taken is only slower.
 */
const knownCollections: (Uint8Array | undefined)[] = Array.from({ length: 4096 })

/**
 * Writes the fields of a commit up to its record key, without the brace at the end. False where a text has another form
 * than most, valid or not: then some of it was written.
 */
export function writeCommitHead(
  block: BlockView,
  row: number,
  seq: number,
  operation: CommitEvent['operation'],
  out: ByteWriter,
): boolean {
  const { body } = block
  const { did, rkey, rev } = textColumns
  out.bytes(head)
  out.digits(seq)
  out.bytes(beforeDid)
  const didStart = block.textStart(did, row)
  if (!writePlcDid(body, didStart, block.textEnd(did, row), out)) return false
  out.bytes(beforeTime)
  const micros = block.indexedAtAt(row) || block.witnessedAtAt(row)
  const second = Math.floor(micros / microsPerSecond)
  out.ascii(displaySecond(second))
  out.byte(point)
  out.digits(micros - second * microsPerSecond, fractionDigits)
  out.bytes(beforeRev)
  if (!out.quoted(body, block.textStart(rev, row), block.textEnd(rev, row))) return false
  out.bytes(beforeCollection[operation])
  const collection = collectionOf(block, row)
  if (collection === undefined) return false
  out.bytes(collection)
  out.bytes(beforeRkey)
  const rkeyStart = block.textStart(rkey, row)
  const rkeyEnd = block.textEnd(rkey, row)
  if (rkeyEnd === rkeyStart || !out.signs(body, rkeyStart, rkeyEnd, rkeySigns)) return false
  out.byte(quote)
  return true
}

/** Writes what follows the prefix of a DID, if it is one of the method plc. */
function writePlcDid(body: Uint8Array, start: number, end: number, out: ByteWriter): boolean {
  const bytes = end - start
  if (bytes <= plcPrefix.length || bytes > didBytesMax) return false
  for (let i = 0; i < plcPrefix.length; i++) if (body[start + i] !== plcPrefix[i]) return false
  return out.signs(body, start + plcPrefix.length, end, didSigns)
}

/** Undefined where it is not valid. */
function collectionOf(block: BlockView, row: number): Uint8Array | undefined {
  const { body } = block
  const start = block.textStart(textColumns.collection, row)
  const end = block.textEnd(textColumns.collection, row)
  let sum = 0
  for (let i = start; i < end; i++) sum = (Math.imul(sum, 31) + (body[i] ?? 0)) | 0
  const place = (sum ^ (sum >>> 12)) & (knownCollections.length - 1)
  const known = knownCollections[place]
  if (known !== undefined && isSame(known, body, start, end)) return known
  const text = block.collectionAt(row)
  if (!isNsid(text)) return undefined
  const bytes = encoder.encode(text)
  knownCollections[place] = bytes
  return bytes
}

function isSame(known: Uint8Array, body: Uint8Array, start: number, end: number): boolean {
  if (known.length !== end - start) return false
  for (let i = 0; i < known.length; i++) if (known[i] !== body[start + i]) return false
  return true
}

function tableOf(signs: string): Uint8Array {
  const table = new Uint8Array(256)
  for (const byte of encoder.encode(signs)) table[byte] = 1
  return table
}
