/** WebSocket frames and the messages in them, as a consumer reads and sends them. */
import { decode, decodeFirst } from '@atcute/cbor'

/** What a consumer is told that is no event. */
export interface Told {
  name: string
  message: string
}

export const opcodes = { text: 1, close: 8, ping: 9, pong: 10 } as const

/** A whole WebSocket frame at the start of some bytes. Undefined while there is none. */
export function firstFrame(bytes: Buffer): Buffer | undefined {
  if (bytes.length < 10 && bytes.length < 2 + headerBytes(bytes)) return undefined
  const head = 2 + headerBytes(bytes)
  const short = bytes.readUInt8(1) & 127
  const length =
    short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  return bytes.length < head + length ? undefined : bytes.subarray(0, head + length)
}

export function opcodeOf(frame: Buffer): number {
  return frame.readUInt8(0) & 15
}

/** A frame as clients send it, masked with zeros. Its payload has up to 65,535 bytes. */
export function clientFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([0x80 | opcode, ...size, 0, 0, 0, 0]), payload])
}

/** Bytes of the length of a frame beyond the first two. */
function headerBytes(bytes: Buffer): number {
  const short = bytes.length < 2 ? 0 : bytes.readUInt8(1) & 127
  return short < 126 ? 0 : short === 126 ? 2 : 8
}

export function payloadOf(frame: Buffer): Buffer {
  return frame.subarray(2 + headerBytes(frame))
}

/** The seq of an event in the v1 framing. Undefined for what is no event. */
export function seqOf(frame: Buffer): number | undefined {
  const { seq } = textOf(frame)
  return typeof seq === 'number' ? seq : undefined
}

/** What a message tells that is no event. Undefined for an event. */
export function toldIn(frame: Buffer): Told | undefined {
  if (opcodeOf(frame) === opcodes.text) return toldBy(textOf(frame))
  const [header, rest] = decodeFirst(payloadOf(frame)) as [{ op: number; t?: string }, Uint8Array] // as all frames begin
  if (header.op === 1 && header.t !== '#info') return undefined
  return toldBy({ $type: header.op === -1 ? 'error' : '#info', ...(decode(rest) as Record<string, unknown>) }) // a map, like all bodies
}

function textOf(frame: Buffer): Record<string, unknown> {
  const text = JSON.parse(payloadOf(frame).toString()) as Record<string, unknown> // a message of the v1 framing
  return text['$type'] === 'message' ? (text['payload'] as Record<string, unknown>) : text // likewise
}

function toldBy({ $type, error, name, message }: Record<string, unknown>): Told | undefined {
  if ($type === 'error') return { name: String(error), message: String(message) }
  return String($type).endsWith('#info') ? { name: String(name), message: String(message) } : undefined
}
