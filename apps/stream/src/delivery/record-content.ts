/** The message of a created or updated record ends with its CID and itself, as bytes: `,"cid":"bafyrei…","record":{…}`. */
import { hash } from 'node:crypto'
import { CODEC_DCBOR, fromDigest } from '@atcute/cid'
import { ByteWriter, limits, RecordError, writeRecordJson } from '@tributary/protocol'
import type { Digest } from '@tributary/repo-verify'

const cidField = Buffer.from(',"cid":"b')
const recordField = Buffer.from('","record":')
/** The bytes of a CID, of which the digest is the end. */
const cid = fromDigest(CODEC_DCBOR, new Uint8Array(32)).bytes
const digestAt = cid.length - 32

const firstBytes = 4096
/** The type that the first byte of a map in CBOR has. */
const mapType = 5
/** Few records need more, and memory for them is not kept. */
const keptBytesMax = 64 * 1024
let out = new ByteWriter(firstBytes)

/**
 * Good until the next call.
 * @param digest that of the record, where it is known. The archive does not keep it: it is the hash of the record
 * (segment-format.md 5.2).
 * @throws RecordError when the record cannot be shown: clients take none that is no map, and end for one that is too large.
 */
export function recordContent(record: Uint8Array, digest?: Digest): Uint8Array {
  // A relay that is trusted may pass on what nobody has checked.
  if ((record[0] ?? 0) >> 5 !== mapType || record.length > limits.recordBytes)
    throw new RecordError(`a record of ${record.length} bytes is no map, or too large`)
  if (digest === undefined) cid.set(hash('sha256', record, 'buffer'), digestAt)
  else for (let i = 0; i < digest.length; i++) cid[digestAt + i] = digest.charCodeAt(i)
  const writer = out
  writer.cut(0)
  try {
    writer.bytes(cidField)
    writer.base32(cid)
    writer.bytes(recordField)
    writeRecordJson(record, writer)
    return writer.written
  } finally {
    if (writer.length > keptBytesMax) out = new ByteWriter(firstBytes)
  }
}
