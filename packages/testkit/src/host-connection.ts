import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'

/** One reader of a scripted host. */
export class HostConnection {
  readonly #webSocket: WebSocket
  readonly #socket: Duplex
  /** The cursor it came with, undefined when it came without. */
  readonly cursor: number | undefined
  /** Settles when it has ended, with the close code: 1006 when there was none. */
  readonly closed: Promise<{ code: number; reason: string }>

  constructor(webSocket: WebSocket, socket: Duplex, cursor: number | undefined) {
    this.#webSocket = webSocket
    this.#socket = socket
    this.cursor = cursor
    this.closed = new Promise((resolve) => {
      webSocket.once('close', (code, reason) => resolve({ code, reason: reason.toString() }))
    })
    // A reader that goes away while it is written to is seen by 'close'.
    webSocket.on('error', () => undefined)
  }

  /** Bytes that were sent and that the reader has not taken yet. */
  get unsentBytes(): number {
    return this.#webSocket.bufferedAmount
  }

  /** Sends one message to this reader only. It is not kept for others. */
  send(message: Uint8Array | string): void {
    if (this.#webSocket.readyState === this.#webSocket.OPEN) this.#webSocket.send(message)
  }

  /** Writes bytes past the WebSocket framing: half a frame, a broken header, a drip. */
  writeRaw(bytes: Uint8Array): void {
    this.#socket.write(bytes)
  }

  /** Sends a ping; settles when the pong is there, or the connection has ended. */
  async ping(): Promise<void> {
    const answered = new Promise<void>((resolve) => this.#webSocket.once('pong', () => resolve()))
    this.#webSocket.ping()
    await Promise.race([answered, this.closed])
  }

  close(code = 1000, reason = ''): void {
    this.#webSocket.close(code, reason)
  }

  /** Ends it without a close frame. */
  terminate(): void {
    this.#webSocket.terminate()
  }
}
