/**
 * What a consumer may send, by the style of its connection, and the WebSocket servers that hold it to that. `ws` ends a
 * consumer that breaks the rules of the protocol (close codes 1002 and 1007) or the limits of one message (1009, 1008).
 */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { refuseHandshake } from './refuse-handshake.ts'

/**
 * `push`: the consumer only listens, and an error comes as a message before the close frame.
 * `dialogue`: the text that it sends goes to its subscription, and an error is the reason of the close frame.
 */
export type ConnectionStyle = 'push' | 'dialogue'

export interface ClientLimits {
  /** Bytes of one message. */
  messageBytesMax: number
  /** Frames of one message. */
  fragmentsMax: number
  /** Pieces in which the bytes of one message may arrive. */
  chunksMax: number
  /** Bytes of everything between two pings of ours. More than this is treated as abuse. */
  bytesMax: number
  /** Pings and messages between two pings of ours. More than this is treated as abuse. */
  framesMax: number
  /** Bytes that are read before others have their turn. */
  sliceBytes: number
}

export const clientLimits: Readonly<Record<ConnectionStyle, ClientLimits>> = {
  // It has nothing to say but pings and pongs, of some hundred bytes. A small message in one frame is let pass.
  // A slice is 85 of the shortest frames.
  push: {
    messageBytesMax: 1024,
    fragmentsMax: 1,
    chunksMax: 16,
    bytesMax: 16 * 1024,
    framesMax: Infinity,
    sliceBytes: 512,
  },
  // What Jetstream v1 takes: one message holds thirty lists of 10,000 DIDs, of 32 characters each. Small packets carry
  // 1,400 bytes of it each.
  dialogue: {
    messageBytesMax: 10_000_000,
    fragmentsMax: 64,
    chunksMax: 8192,
    bytesMax: 12_000_000,
    framesMax: 120,
    sliceBytes: 16 * 1024,
  },
}

/** A server of one style for sockets that somebody else has accepted. */
export function newWebSocketServer(
  style: ConnectionStyle,
  { protocols = [], serverHeader }: { protocols?: readonly string[]; serverHeader?: string },
): WebSocketServer {
  const { messageBytesMax, fragmentsMax, chunksMax } = clientLimits[style]
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: messageBytesMax,
    maxFragments: fragmentsMax,
    maxBufferedChunks: chunksMax,
    autoPong: false,
    handleProtocols: (offered) => [...offered].find((protocol) => protocols.includes(protocol)) ?? false,
  })
  const form = style === 'push' ? 'json' : 'text'
  server.on('wsClientError', (error: Error, socket: Duplex, request: IncomingMessage) =>
    refuseHandshake(error, socket, request, form),
  )
  if (serverHeader) server.on('headers', (headers) => headers.push(`Server: ${serverHeader}`))
  return server
}
