import type { BlockView } from '@tributary/segment'
import type { LiveSocket, SocketHandlers } from './socket.ts'

/** Decompressed bytes of one block that a client accepts. Blocks of 4096 rows have a few MB. */
export const blockBodyBytesMax: number = 256 * 1024 * 1024

/** For `stallMs` of every platform. */
export const stallMsDefault = 60_000

/** What the client needs of its platform: index.ts has the browser's, node.ts has Node's. */
export interface Runtime {
  /** The rows of one stored frame of at most `blockBodyBytesMax`, its checksum compared. Throws SegmentError. */
  decode(frame: Uint8Array): BlockView | Promise<BlockView>
  sha256: (bytes: Uint8Array) => Uint8Array
  openSocket(url: string, subprotocol: string | undefined, handlers: SocketHandlers): LiveSocket
  /** Whether a request that finds no server fails with a TypeError that has a `cause`. */
  failuresHaveCause: boolean
  /** Whether a socket that is refused says with which HTTP status. Browsers hide it. */
  showsRefusals: boolean
  /**
   * Milliseconds in which less than 16 KiB came, after which a request is given up. Large bodies may take as long as they keep
   * coming.
   */
  stallMs: number
  /** A socket is replaced after one to two of these, in milliseconds, without a message or a ping. */
  idleLimitMs: number
}
