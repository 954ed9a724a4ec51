/** Bytes of a fragment from which it counts as part of its message. Servers that write in buffers send 1,024. */
const fragmentBytesMin = 512
/** Length of the head of a frame whose length is in the two bytes that each frame begins with. */
const shortHeadBytes = 2

/**
 * Walks the heads of the WebSocket frames that a server sends, to count them and to cut what was received into pieces
 * of few frames. It checks nothing: the reader of the frames does.
 */
export class FrameMeter {
  /** The head of a frame of which not all has come. */
  readonly #head = Buffer.alloc(10)
  #headBytes = 0
  #payloadLeft = 0
  #isData = false
  #isFinal = false
  #isMidMessage = false
  #messages = 0
  #idleFrames = 0

  /** Messages that have begun. */
  get messages(): number {
    return this.#messages
  }

  /** Frames that carry no message: control frames and tiny fragments. */
  get idleFrames(): number {
    return this.#idleFrames
  }

  /** Whether a message has begun that has not ended. */
  get isMidMessage(): boolean {
    return this.#isMidMessage
  }

  /** Walks over up to `framesMax` frames that begin from `start` on. Returns where the next one begins, or the end. */
  walk(bytes: Buffer, start: number, framesMax: number): number {
    let at = start
    let frames = 0
    for (;;) {
      const payload = Math.min(this.#payloadLeft, bytes.length - at)
      this.#payloadLeft -= payload
      at += payload
      if (this.#payloadLeft === 0 && this.#headBytes === 0) this.#noteEnd()
      if (at === bytes.length) return at
      if (this.#headBytes === 0 && frames++ === framesMax) return at
      at = this.#readHead(bytes, at)
    }
  }

  /** Takes in what there is of a head. */
  #readHead(bytes: Buffer, start: number): number {
    let at = start
    while (at < bytes.length) {
      this.#head[this.#headBytes++] = bytes[at++] ?? 0
      if (this.#headBytes < shortHeadBytes) continue
      const short = (this.#head[1] ?? 0) & 0x7f
      const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0
      if (this.#headBytes < shortHeadBytes + lengthBytes) continue
      // Longer than any message is: the reader of the frames ends the connection.
      if (lengthBytes === 8)
        this.#payloadLeft = this.#head.readUInt32BE(2) * 2 ** 32 + this.#head.readUInt32BE(6)
      else this.#payloadLeft = lengthBytes === 2 ? this.#head.readUInt16BE(2) : short
      this.#headBytes = 0
      this.#noteHead(this.#head[0] ?? 0)
      break
    }
    return at
  }

  #noteHead(first: number): void {
    this.#isFinal = (first & 0x80) !== 0
    this.#isData = (first & 0x0f) < 8
    if (!this.#isData) {
      this.#idleFrames++
      return
    }
    if (!this.#isMidMessage) this.#messages++
    this.#isMidMessage = true
    if (!this.#isFinal && this.#payloadLeft < fragmentBytesMin) this.#idleFrames++
  }

  #noteEnd(): void {
    if (this.#isData && this.#isFinal) this.#isMidMessage = false
  }
}
