import type { IncomingMessage } from 'node:http'
import { WebSocket, type RawData } from 'ws'
import { failureText } from './errors.ts'
import { readErrorBody } from './http.ts'
import { isObject } from './json.ts'
import { type LiveSocket, messageBytesMax, type SocketEnd, type SocketHandlers } from './socket.ts'

const refusalBytesMax = 16 * 1024
const handshakeTimeoutMs = 20_000
/** We ping as well, because a server that does not would look dead whenever it is quiet. */
const pingEveryMs = 30_000

/** Opens a socket of the `ws` package: reading can be paused, pings and pongs count as life, refusals are read. */
export function openNodeSocket(
  url: string,
  subprotocol: string | undefined,
  handlers: SocketHandlers,
): LiveSocket {
  const socket = new WebSocket(url, subprotocol ?? [], {
    perMessageDeflate: false,
    maxPayload: messageBytesMax,
    handshakeTimeout: handshakeTimeoutMs,
  })
  let refusal: SocketEnd['refusal']
  let failure = ''
  let isOversized = false
  const pings = setInterval(() => {
    if (socket.readyState === WebSocket.OPEN) socket.ping()
  }, pingEveryMs)
  socket.on('open', () => handlers.opened())
  socket.on('message', (data: RawData, isBinary) =>
    handlers.message(isBinary ? bytesOf(data) : bytesOf(data).toString()),
  )
  socket.on('ping', () => handlers.alive())
  socket.on('pong', () => handlers.alive())
  socket.on('unexpected-response', (_request, response) => {
    const keepRefusal = async (): Promise<void> => {
      refusal = await readRefusal(response)
      socket.terminate()
    }
    void keepRefusal()
  })
  socket.on('error', (error) => {
    isOversized ||= 'code' in error && error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH'
    failure ||= failureText(error, url)
  })
  socket.on('close', (code, reason) => {
    clearInterval(pings)
    handlers.closed({ code, reason: reason.toString() || failure, isOversized, ...(refusal && { refusal }) })
  })
  return {
    // A close handshake needs a reader on both sides; nothing is sent by us that could be lost.
    close: () => socket.terminate(),
    flow: { pause: () => socket.pause(), resume: () => socket.resume() },
  }
}

function bytesOf(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data)
}

/** The status and, where the body is an XRPC error, its name and message. Never throws. */
async function readRefusal(response: IncomingMessage): Promise<NonNullable<SocketEnd['refusal']>> {
  const status = response.statusCode ?? 0
  const retryAfter = Number(response.headers['retry-after'])
  const base = { status, ...(retryAfter > 0 && { retryAfterMs: retryAfter * 1000 }) }
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      // a response without an encoding gives buffers
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > refusalBytesMax) break
    }
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
    return isObject(body) ? { ...base, ...readErrorBody(body) } : base
  } catch {
    // The status alone says enough.
    return base
  }
}
