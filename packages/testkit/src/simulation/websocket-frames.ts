/** WebSocket frames as a consumer reads and sends them. */

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
