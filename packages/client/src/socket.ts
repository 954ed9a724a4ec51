/**
 * The client's view of a WebSocket, small enough to have two implementations: the standard one below, for browsers,
 * and that of the `ws` package in node-socket.ts, which can also pause reading, see pings and read a refusal.
 */

/**
 * Bytes of a message: a record has at most 1 MB and 20,000 values, which take less than that as JSON. Larger ones become
 * objects of gigabytes.
 */
export const messageBytesMax: number = 8 * 1024 * 1024

/** Called in order; nothing is called after `closed`. */
export interface SocketHandlers {
  opened(): void
  /** Bytes are those of a binary message. */
  message(data: string | Uint8Array): void
  /** The peer gave a sign of life that is not a message. */
  alive(): void
  closed(end: SocketEnd): void
}

export interface SocketEnd {
  /** Close code, 1006 when the connection just ended. */
  code: number
  reason: string
  /** Whether the server sent a message of more than `messageBytesMax`. */
  isOversized?: boolean
  /** The HTTP answer given instead of an upgrade, where the platform shows it. */
  refusal?: { status: number; error?: string; message?: string; retryAfterMs?: number }
}

export interface LiveSocket {
  close(): void
  /** Stops and continues reading, so that the sender feels it. Absent where the platform cannot. */
  readonly flow?: { pause(): void; resume(): void }
}

/** Milliseconds in which the end of a socket has to follow its failure. */
const closeAfterErrorMs = 1000

/** Opens a standard WebSocket, as browsers have it. */
export function openStandardSocket(
  url: string,
  subprotocol: string | undefined,
  handlers: SocketHandlers,
): LiveSocket {
  const socket = new WebSocket(url, subprotocol ?? [])
  socket.binaryType = 'arraybuffer'
  socket.addEventListener('open', () => handlers.opened())
  socket.addEventListener('message', ({ data }: { data: unknown }) => {
    handlers.message(data instanceof ArrayBuffer ? new Uint8Array(data) : String(data))
  })
  let hasEnded = false
  const end = (socketEnd: SocketEnd): void => {
    if (!hasEnded) handlers.closed(socketEnd)
    hasEnded = true
  }
  socket.addEventListener('close', ({ code, reason }) => end({ code, reason }))
  // Node 22 tells no end of a socket that could not be opened.
  socket.addEventListener('error', () => {
    setTimeout(() => end({ code: 1006, reason: '' }), closeAfterErrorMs)
  })
  return { close: () => socket.close(1000) }
}
