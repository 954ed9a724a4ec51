/**
 * How a row lies in the write-ahead log. Its seq is the record's own and its kind stands in the record's metadata, so
 * neither is repeated here. All integers are little-endian:
 *
 *     version u8 = 1 | collection length u8 | rkey length u8 | rev length u8 | did length u16 | zero u16
 *     witnessed at f64 (microseconds) | indexed at f64 | collection | did | rkey | rev | payload
 */
import type { Row, RowKind } from '@tributary/segment'

const version = 1
const headBytes = 24

/** A row that has no seq yet. */
export type RowDraft = Omit<Row, 'seq'>

/** A record of the write-ahead log is not a row of this version. */
export class WalRowError extends Error {
  override readonly name = 'WalRowError'
}

/** The bytes in front of a row's payload. The caller has checked the lengths (segment-format.md 5.4). */
export function encodeWalHead(row: RowDraft): Buffer {
  // Written as one text, because each look at a text takes longer than its few characters do.
  const text = row.collection + row.did + row.rkey + row.rev
  const textBytes = Buffer.byteLength(text)
  const isAscii = textBytes === text.length
  const lengthOf = (part: string): number => (isAscii ? part.length : Buffer.byteLength(part))
  const bytes = Buffer.allocUnsafe(headBytes + textBytes)
  bytes.writeUInt8(version, 0)
  bytes.writeUInt8(lengthOf(row.collection), 1)
  bytes.writeUInt8(lengthOf(row.rkey), 2)
  bytes.writeUInt8(lengthOf(row.rev), 3)
  bytes.writeUInt16LE(lengthOf(row.did), 4)
  bytes.writeUInt16LE(0, 6)
  bytes.writeDoubleLE(row.witnessedAt, 8)
  bytes.writeDoubleLE(row.indexedAt, 16)
  bytes.write(text, headBytes)
  return bytes
}

/** Reads a row back. Its payload is a view of `bytes`. @throws WalRowError */
export function decodeWalRow(seq: number, kind: number, bytes: Buffer): Row {
  if (bytes.length < headBytes || bytes[0] !== version) {
    throw new WalRowError(`record ${seq} of the write-ahead log is not a row of version ${version}`)
  }
  if (kind < 1 || kind > 7)
    throw new WalRowError(`record ${seq} of the write-ahead log has the unknown kind ${kind}`)
  let at = headBytes
  const text = (length: number): string => bytes.toString('utf8', at, (at += length))
  const collection = text(bytes.readUInt8(1))
  const did = text(bytes.readUInt16LE(4))
  const rkey = text(bytes.readUInt8(2))
  const rev = text(bytes.readUInt8(3))
  if (at > bytes.length) throw new WalRowError(`record ${seq} of the write-ahead log ends early`)
  return {
    seq,
    kind: kind as RowKind, // 1 to 7, checked above
    witnessedAt: bytes.readDoubleLE(8),
    indexedAt: bytes.readDoubleLE(16),
    collection,
    did,
    rkey,
    rev,
    payload: bytes.subarray(at),
  }
}
