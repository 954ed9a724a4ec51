import type { FanoutClock } from './clock.ts'
import type { CloseReason } from './close-reason.ts'
import type { SubscriberInfo } from './subscriber.ts'

export interface FanoutOptions {
  /**
   * The framed message that tells a consumer an error by name, the last thing it gets.
   * @param protocol the subprotocol that was agreed on; empty when none was.
   */
  errorFrame: (error: string, message: string, protocol: string) => Uint8Array
  /** Longest wait before a flush in milliseconds, reached at some 330 readers. Default 50. */
  flushMsMax?: number
  /** Milliseconds between pings. Two without an answer end a consumer. Default 30,000. */
  pingMs?: number
  /** A consumer whose socket takes nothing for so many milliseconds is ended. Default 30,000. */
  stallMs?: number
  /**
   * Messages that a consumer may be behind without coming closer. Default: any number, as long as the log holds them.
   * One that replays from far back may be as far behind as it likes while it catches up.
   */
  lagMax?: number
  /** Bytes that all readers behind the memory tail may have outstanding together. Default 32 MiB. */
  catchUpBytesMax?: number
  /** Bytes that one read of a reader that is behind gives at most, about. Default 256 KiB. */
  readBytesMax?: number
  /**
   * Bytes that the sockets of all consumers may keep in memory together. Beyond it the consumer that holds most, of the
   * network that holds most, is cut off. Default 256 MiB.
   */
  heldBytesMax?: number
  /** Who takes turns with others, and gives way to them. Default: each address. */
  networkOf?: (address: string) => string
  /** What a message from a consumer that only listens does. Default `ignore`. */
  clientMessages?: 'ignore' | 'refuse'
  /** `Server` header of the handshake. */
  serverHeader?: string
  /** Subprotocols to agree on, where the consumer's preference counts. */
  protocols?: readonly string[]
  /** Told of consumers that we ended. */
  onEnded?: (info: SubscriberInfo, reason: CloseReason) => void
  /** Told of faults of ours that ended a consumer. */
  onFault?: (error: unknown) => void
  /** Default: that of the machine. */
  clock?: FanoutClock
}
