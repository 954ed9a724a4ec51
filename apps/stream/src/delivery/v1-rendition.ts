/**
 * Messages as Jetstream v1 writes them (segment-format.md 15), made of the parts of ours. Parts are found by their names
 * with the quotes: inside a JSON string every quote is escaped, so no value can be taken for one.
 */
import { frameMessage } from '@tributary/fanout'
import { rowKind } from '@tributary/segment'
import { messageOf, namesMethod, ownHead, type Rendition } from './rendition.ts'

const nothing = new Uint8Array(0)

/** Version 1 knows neither syncs, nor records that were read again, nor notices. */
export const v1Rendition: Rendition = {
  name: 'jetstream v1',
  shows: (kind) => kind !== rowKind.sync && kind !== rowKind.createResync,
  frame: (own) => {
    const parts = partsOf(own)
    return parts.length > 0 ? frameMessage('text', ...parts) : nothing
  },
  messageBytes: (own) => partsOf(own).reduce((sum, { length }) => sum + length, 0),
}

const beforeSeq = '","seq":'
const beforeDid = ',"did":'
const beforeTime = ',"time":"'
const [open, end, endTwice] = ['{', '}', '}}'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer] // three texts

/** The v1 message of one of our frames, in parts. None for what version 1 does not know. */
function partsOf(own: Uint8Array): Uint8Array[] {
  const { buffer, byteOffset, length } = messageOf(own)
  const message = Buffer.from(buffer, byteOffset, length)
  if (!namesMethod(message)) return []
  const kindEnd = message.indexOf('"', ownHead.length)
  const kind = message.toString('latin1', ownHead.length, kindEnd)
  if (kind !== 'commit' && kind !== 'identity' && kind !== 'account') return []
  const didAt = message.indexOf(beforeDid, kindEnd)
  const timeAt = message.indexOf(beforeTime, didAt)
  const timeEnd = message.indexOf('"', timeAt + beforeTime.length)
  const seq = message.subarray(kindEnd + beforeSeq.length, didAt)
  const micros = microsOf(message.toString('latin1', timeAt + beforeTime.length, timeEnd))
  const head = [
    open,
    message.subarray(didAt + 1, timeAt),
    Buffer.from(`,"time_us":${micros},"cursor":`),
    seq,
    Buffer.from(kind === 'commit' ? ',"kind":"commit","commit":{' : `,"kind":"${kind}"`),
  ]
  // Without the braces that end the payload and the message.
  const body = message.subarray(timeEnd + 1, -endTwice.length)
  if (kind !== 'commit') return [...head, body, end]
  return [...head, ...commitParts(body.subarray(1)), endTwice]
}

/** Version 1 has the record before its CID. A deletion has neither. */
function commitParts(fields: Buffer): Buffer[] {
  const cidAt = fields.indexOf(',"cid":"')
  if (cidAt === -1) return [fields]
  const recordAt = fields.indexOf(',"record":', cidAt)
  return [fields.subarray(0, cidAt), fields.subarray(recordAt), fields.subarray(cidAt, recordAt)]
}

/** Digits of the microseconds that a `Date` does not hold, and the Z. */
const microsTail = 4

function microsOf(time: string): number {
  const millis = Date.parse(`${time.slice(0, -microsTail)}Z`)
  return millis * 1000 + Number(time.slice(-microsTail, -1))
}
