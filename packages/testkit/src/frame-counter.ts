/** Takes a WebSocket byte stream of a server apart by its headers alone. */

export interface FrameHandler {
  /** A data message has ended. `payload` is there only when the counter keeps payloads. */
  onMessage(bytes: number, payload: Buffer | undefined): void
  onPing(payload: Buffer): void
  onClose(code: number, reason: string): void
}

const headerBytesMax = 10
const none = Buffer.alloc(0)

/** Parses whatever pieces arrive. Payloads are skipped unless `keepsPayloads` or they are of control frames. */
export class FrameCounter {
  readonly #handler: FrameHandler
  readonly #keepsPayloads: boolean
  /** A header of which only a part has arrived. */
  readonly #header = Buffer.alloc(headerBytesMax)
  #headerHas = 0
  /** Bytes of the current payload still to come. */
  #left = 0
  #opcode = 0
  #isFinal = true
  #messageBytes = 0
  #kept: Buffer[] = []

  constructor(handler: FrameHandler, keepsPayloads: boolean) {
    this.#handler = handler
    this.#keepsPayloads = keepsPayloads
  }

  /** Takes the next bytes of the stream. They may be reused afterwards. */
  push(bytes: Buffer): void {
    let at = 0
    while (at < bytes.length) {
      if (this.#left === 0) {
        at = this.#readHeader(bytes, at)
        continue
      }
      const end = Math.min(bytes.length, at + this.#left)
      if (this.#keepsPayloads || this.#opcode >= 8) this.#kept.push(Buffer.from(bytes.subarray(at, end)))
      this.#left -= end - at
      at = end
      if (this.#left === 0) this.#endFrame()
    }
  }

  /** Collects a header byte by byte until it is whole. Returns where the payload begins. */
  #readHeader(bytes: Buffer, start: number): number {
    const header = this.#header
    for (let at = start; at < bytes.length; at++) {
      header[this.#headerHas++] = bytes[at] ?? 0
      if (this.#headerHas < headerLength(header, this.#headerHas)) continue
      this.#startFrame(header)
      return at + 1
    }
    return bytes.length
  }

  #startFrame(header: Buffer): void {
    this.#headerHas = 0
    this.#opcode = header.readUInt8(0) & 0x0f
    this.#isFinal = header.readUInt8(0) >= 0x80
    const short = header.readUInt8(1) & 0x7f
    this.#left = short
    if (short === 126) this.#left = header.readUInt16BE(2)
    if (short === 127) this.#left = Number(header.readBigUInt64BE(2))
    if (this.#opcode < 8) this.#messageBytes += this.#left
    if (this.#left === 0) this.#endFrame()
  }

  #endFrame(): void {
    if (this.#opcode < 8 && !this.#isFinal) return
    const payload = this.#kept.length === 0 ? none : Buffer.concat(this.#kept)
    this.#kept = []
    if (this.#opcode === 8) {
      const code = payload.length < 2 ? 1005 : payload.readUInt16BE(0)
      this.#handler.onClose(code, payload.toString('utf8', 2))
    } else if (this.#opcode === 9) this.#handler.onPing(payload)
    else if (this.#opcode < 8) {
      const bytes = this.#messageBytes
      this.#messageBytes = 0
      this.#handler.onMessage(bytes, this.#keepsPayloads ? payload : undefined)
    }
  }
}

/** How long the header is that begins like this; at least two bytes must be there to tell. */
function headerLength(header: Buffer, has: number): number {
  if (has < 2) return 2
  const short = header.readUInt8(1) & 0x7f
  if (short === 127) return 10
  return short === 126 ? 4 : 2
}
