import type { BlockView } from '@tributary/segment'
import type { LiveSocket, SocketHandlers } from './socket.ts'

/** What the client needs of its platform: index.ts has the browser's, node.ts has Node's. */
export interface Runtime {
  /** The rows of one stored frame, its checksum compared. Throws SegmentError. */
  decode(frame: Uint8Array): BlockView | Promise<BlockView>
  sha256(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>
  openSocket(url: string, handlers: SocketHandlers): LiveSocket
  /** Whether a socket that is refused says with which HTTP status. Browsers hide it. */
  showsRefusals: boolean
  /** A socket is replaced after one to two of these, in milliseconds, without a message or a ping. */
  idleLimitMs: number
}
