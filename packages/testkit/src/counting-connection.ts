import { hash, randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { FrameCounter } from './frame-counter.ts'
import type { FrameHandler } from './frame-counter.ts'

const acceptSuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const responseBytesMax = 16_384
const readBufferBytes = 256 * 1024

/** One buffer for all connections: what arrives is taken apart before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(readBufferBytes)

/** What came of one reader's connection. */
export interface CountingConnection {
  readonly socket: Socket
  /** Settles when the server has accepted the WebSocket; rejects when it has not. */
  readonly opened: Promise<void>
}

/**
 * Opens a WebSocket over a plain socket and reads it with as little work as possible. `ws:` only.
 * Answers pings; sends nothing else.
 */
export function openCountingConnection(
  url: URL,
  handler: Omit<FrameHandler, 'onPing'>,
  options: { keepsPayloads: boolean; localAddress?: string | undefined },
): CountingConnection {
  const opened = Promise.withResolvers<void>()
  const key = randomBytes(16).toString('base64')
  const frames = new FrameCounter(
    { ...handler, onPing: (payload) => socket.write(pong(payload)) },
    options.keepsPayloads,
  )
  let response: string | undefined = ''
  const take = (bytes: Buffer): void => {
    if (response === undefined) return frames.push(bytes)
    response += bytes.toString('latin1')
    const end = response.indexOf('\r\n\r\n')
    if (end < 0 && response.length < responseBytesMax) return
    const head = response.slice(0, end)
    const rest = Buffer.from(response.slice(end + 4), 'latin1')
    response = undefined
    const accept = hash('sha1', key + acceptSuffix, 'base64')
    if (head.startsWith('HTTP/1.1 101') && head.includes(accept)) {
      opened.resolve()
      frames.push(rest)
    } else {
      opened.reject(new Error(`${url.href} answered ${head.split('\r\n', 1)[0]}`))
      socket.destroy()
    }
  }
  const socket = connect({
    host: url.hostname,
    port: Number(url.port),
    localAddress: options.localAddress,
    onread: {
      buffer: readBuffer,
      callback: (length, buffer) => {
        take((buffer as Buffer).subarray(0, length)) // reason: it is readBuffer.
        return true
      },
    },
  })
  socket.on('error', opened.reject)
  socket.on('close', () => opened.reject(new Error(`${url.href} closed the connection`)))
  const lines = [
    `GET ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${key}`,
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  return { socket, opened: opened.promise }
}

/** A client's frame is masked; a mask of zeros leaves the payload as it is. */
function pong(payload: Buffer): Buffer {
  return Buffer.concat([Uint8Array.of(0x8a, 0x80 | payload.length, 0, 0, 0, 0), payload])
}
