/**
 * Stands between a socket and the ws client that reads frames from it, and hands over a few frames at a time. ws alone
 * reads all of a chunk within one turn, up to 32,000 frames of two bytes, though it was paused at the first.
 */
import type { Socket } from 'node:net'
import type { Turns } from '@tributary/rates'
import type { WebSocket } from 'ws'
import { FrameMeter } from './frame-meter.ts'

/** Frames that are handed over before it is looked whether to go on. Most chunks of 64 kB hold fewer commits. */
const framesAtOnce = 16

export interface PacedFeedOptions {
  turns: Turns
  /** Told how many frames were handed over: messages, and frames that carry none. */
  onFrames: (frames: number) => void
}

export class PacedFeed {
  readonly meter: FrameMeter = new FrameMeter()
  readonly #socket: Socket
  readonly #webSocket: WebSocket
  readonly #options: PacedFeedOptions
  readonly #handOver: (chunk: Buffer) => void
  /** What was received and not handed over. Meanwhile the socket is not read. */
  #chunk: Buffer | undefined
  #at = 0
  #isPaused = false

  /** @param socket that `webSocket` has just begun to listen to. */
  constructor(webSocket: WebSocket, socket: Socket, options: PacedFeedOptions) {
    this.#webSocket = webSocket
    this.#socket = socket
    this.#options = options
    const [listener, other] = socket.listeners('data')
    if (!listener || other) throw new Error('invariant broken: ws alone listens to its socket')
    socket.removeAllListeners('data')
    this.#handOver = (chunk) => void Reflect.apply(listener, socket, [chunk])
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    // ws would hand over all that the socket has buffered at once when it is closed. All of it comes again.
    socket.prependListener('close', () => {
      this.#chunk = undefined
      socket.read()
    })
  }

  /** Bytes that were received. */
  get bytesRead(): number {
    return this.#socket.bytesRead
  }

  /** Stops reading with the frame at hand, or goes on in a later turn. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    if (this.#chunk && !isPaused) this.#options.turns.runLater(this.#step)
    this.#holdOrFlow()
  }

  #take(chunk: Buffer): void {
    // A connection that ends takes nothing more in.
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) return
    this.#chunk = chunk
    this.#at = 0
    // A single byte, such as the one that `#hold` gave back, is less work than keeping it is.
    if (chunk.length === 1) this.#step()
    else this.#options.turns.run(this.#step)
    if (this.#chunk) this.#hold(this.#chunk)
    this.#holdOrFlow()
  }

  /** Keeps the rest of a chunk for later turns. */
  #hold(chunk: Buffer): void {
    this.#webSocket.pause()
    // A socket with nothing in its buffer says that it ended though it is paused, and ws would not wait for the rest.
    this.#socket.unshift(chunk.subarray(-1))
    this.#chunk = this.#at === chunk.length - 1 ? undefined : chunk.subarray(0, -1)
  }

  /** Hands over some frames. True when it is to go on with more of them. */
  readonly #step = (): boolean => {
    const chunk = this.#chunk
    if (!chunk || this.#isPaused) return false
    const { meter } = this
    const framesBefore = meter.messages + meter.idleFrames
    const start = this.#at
    this.#at = meter.walk(chunk, start, framesAtOnce)
    const isWhole = this.#at === chunk.length
    if (isWhole) this.#chunk = undefined
    this.#handOver(start === 0 && isWhole ? chunk : chunk.subarray(start, this.#at))
    this.#options.onFrames(meter.messages + meter.idleFrames - framesBefore)
    if (this.#webSocket.readyState !== this.#webSocket.OPEN) this.#chunk = undefined
    if (!this.#chunk) this.#holdOrFlow()
    return this.#chunk !== undefined && !this.#isPaused
  }

  #holdOrFlow(): void {
    const isHeld = this.#isPaused || this.#chunk !== undefined
    if (isHeld === this.#webSocket.isPaused) return
    if (isHeld) this.#webSocket.pause()
    else this.#webSocket.resume()
  }
}
