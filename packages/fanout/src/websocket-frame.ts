/** Server-to-client WebSocket frames, RFC 6455: whole messages, unmasked, without extensions. */

const opcodes = { text: 1, binary: 2 } as const

/** Bytes that the frame header of a message of `length` bytes takes: 2, 4 or 10. */
export function headerSize(length: number): number {
  return length < 126 ? 2 : length < 65_536 ? 4 : 10
}

/** Writes the frame header of a message of `length` bytes at `offset` and returns where the message starts. */
export function writeHeader(
  target: Buffer,
  offset: number,
  type: keyof typeof opcodes,
  length: number,
): number {
  target[offset] = 0x80 | opcodes[type]
  if (length < 126) {
    target[offset + 1] = length
    return offset + 2
  }
  if (length < 65_536) {
    target[offset + 1] = 126
    return target.writeUInt16BE(length, offset + 2)
  }
  target[offset + 1] = 127
  return target.writeBigUInt64BE(BigInt(length), offset + 2)
}

/** One whole WebSocket message, made of the parts in order. */
export function frameMessage(type: keyof typeof opcodes, ...parts: Uint8Array[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  const frame = Buffer.allocUnsafe(headerSize(length) + length)
  let at = writeHeader(frame, 0, type, length)
  for (const part of parts) {
    frame.set(part, at)
    at += part.length
  }
  return frame
}

/** A whole text message. The text is written into its frame, so that no copy of its bytes is left beside it. */
export function frameText(text: string): Buffer {
  const length = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(headerSize(length) + length)
  frame.write(text, writeHeader(frame, 0, 'text', length))
  return frame
}
