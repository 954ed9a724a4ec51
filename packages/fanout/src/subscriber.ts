import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import type { ClientFeed } from './client-feed.ts'
import type { FanoutClock } from './clock.ts'
import { closeText, type CloseReason } from './close-reason.ts'
import { cutOffAfter } from './cut-off.ts'
import type { FanoutGroup } from './fanout-group.ts'
import type { ConnectionStyle } from './from-client.ts'

/** A consumer's socket after the WebSocket handshake. `ws` keeps the control frames, we write the messages. */
export interface Connection {
  readonly style: ConnectionStyle
  readonly webSocket: WebSocket
  readonly socket: Socket
  readonly feed: ClientFeed
  readonly remoteAddress: string
  readonly userAgent: string
}

/** What an operator sees of a consumer. */
export interface SubscriberInfo {
  id: number
  remoteAddress: string
  userAgent: string
  connectedAtMs: number
  state: SubscriberState
  startCursor: number
  /** Last seq it was sent, or passed over by its filter. */
  position: number
  lag: number
  bytesSent: number
}

/** `live`: gets what is published. `behind`: reads from its position. `draining`: its socket has not taken the last write. */
export type SubscriberState = 'live' | 'behind' | 'draining' | 'closed'

/** A consumer that is ended has this long to read what is on its way, and then why. Then it is cut off. */
const closeGraceMs = 5000

/** One consumer: a filter (its group) and a position. It owns no queue. */
export class Subscriber {
  readonly id: number
  readonly connection: Connection
  /** A group changes it when it gives the consumer to another one. */
  group: FanoutGroup
  readonly startCursor: number
  readonly connectedAtMs: number
  readonly #clock: FanoutClock
  state: SubscriberState = 'behind'
  position: number
  bytesSent = 0
  #lastWriteBytes = 0
  isAnswering = true
  /** Messages that it was behind at the last look. */
  lagBefore: number = Infinity
  /** Bytes that the kernel had taken at the last look, and since when that has not changed. -1: there was no look. */
  takenBytes = -1
  stuckSinceMs = 0

  constructor(
    id: number,
    connection: Connection,
    group: FanoutGroup,
    { afterSeq, clock }: { afterSeq: number; clock: FanoutClock },
  ) {
    this.id = id
    this.#clock = clock
    this.connectedAtMs = clock.nowMs()
    this.connection = connection
    this.group = group
    this.startCursor = afterSeq
    this.position = afterSeq
  }

  /**
   * Hands whole WebSocket messages to the socket. False when the socket is full: wait for `drained` before the next.
   * @param free called when the kernel has taken all of them.
   */
  write(frames: readonly Uint8Array[], lastSeq: number, free?: () => void): boolean {
    const { socket } = this.connection
    const last = frames.at(-1)
    // After an error the socket may still be about to send the frames: garbage collection frees them then.
    const onTaken = free && ((error?: Error | null) => (error ? undefined : free()))
    let bytes = 0
    if (frames.length > 1) socket.cork()
    for (const frame of frames) {
      bytes += frame.length
      socket.write(frame, frame === last ? onTaken : undefined)
    }
    if (frames.length > 1) socket.uncork()
    if (!last) free?.()
    this.#lastWriteBytes = bytes
    this.bytesSent += bytes
    this.position = lastSeq
    return socket.writableLength === 0 || !socket.writableNeedDrain
  }

  /** Whether the socket still has bytes of ours that the kernel has not taken. */
  get isHolding(): boolean {
    return this.connection.socket.writableLength > 0
  }

  /** Bytes of ours that the socket keeps in memory: a write is kept whole until its last byte is taken. */
  get heldBytes(): number {
    const { writableLength } = this.connection.socket
    return writableLength > 0 ? Math.max(writableLength, this.#lastWriteBytes) : 0
  }

  /** Resolves when the socket has taken everything, or is closed. */
  async drained(): Promise<void> {
    const { socket } = this.connection
    if (socket.destroyed || !socket.writableNeedDrain) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off('drain', done)
        socket.off('close', done)
        resolve()
      }
      socket.on('drain', done)
      socket.on('close', done)
    })
  }

  info(headSeq: number): SubscriberInfo {
    const { remoteAddress, userAgent } = this.connection
    const position = this.state === 'live' ? headSeq : this.position
    return {
      id: this.id,
      remoteAddress,
      userAgent,
      connectedAtMs: this.connectedAtMs,
      state: this.state,
      startCursor: this.startCursor,
      position,
      lag: Math.max(0, headSeq - position),
      bytesSent: this.bytesSent,
    }
  }

  /** Tells the consumer why, then closes. A consumer that does not take it in time is cut off. */
  close(reason: CloseReason, errorFrame: Uint8Array): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    const { socket } = this.connection
    sayWhy(this.connection, reason, errorFrame)
    // `ws` does this too, but not for a consumer that has ended its half of the connection.
    cutOffAfter(closeGraceMs, socket, this.#clock)
  }
}

/** Begins to close a connection, with the reason in the form that its style knows. */
export function sayWhy(
  { socket, webSocket, style }: Connection,
  { code, error, message }: CloseReason,
  errorFrame: Uint8Array,
): void {
  if (style === 'push') socket.write(errorFrame)
  webSocket.close(code, style === 'push' ? error : closeText(message))
}
