import { hash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'

export interface RawHost extends AsyncDisposable {
  /** `ws://127.0.0.1:PORT` */
  url: string
  /** Bytes that came from clients after the handshake. */
  received: Buffer[]
}

/** A host that does with each connection what a test says, from the request on. */
export async function startRawHost(answer: (socket: Socket, request: string) => void): Promise<RawHost> {
  const open = new Set<Socket>()
  const received: Buffer[] = []
  const server: Server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => open.delete(socket))
    socket.once('data', (request) => {
      socket.on('data', (bytes) => received.push(bytes))
      answer(socket, request.toString('latin1'))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, // it listens on TCP
    received,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

/** A host that shakes hands and then does what a test says. */
export async function startUpgradedHost(misbehave: (socket: Socket) => void): Promise<RawHost> {
  return await startRawHost((socket, request) => {
    const key = /^sec-websocket-key: (.*)$/im.exec(request)?.[1]?.trim() ?? ''
    const accept = hash('sha1', `${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64')
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    )
    misbehave(socket)
  })
}

export const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 }

/** A frame as a server sends it. @param lengthBytes at least so many bytes give the length: 0, 2 or 8. */
export function frame(
  opcode: number,
  payload: Uint8Array = Buffer.alloc(0),
  { isFinal = true, lengthBytes = 0 }: { isFinal?: boolean; lengthBytes?: number } = {},
): Buffer {
  const { length } = payload
  const extra = Math.max(lengthBytes, length < 126 ? 0 : length <= 0xffff ? 2 : 8)
  const head = Buffer.alloc(2 + extra)
  head[0] = (isFinal ? 0x80 : 0) | opcode
  head[1] = extra === 0 ? length : extra === 2 ? 126 : 127
  if (extra === 2) head.writeUInt16BE(length, 2)
  else if (extra === 8) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

/** The same bytes many times over. */
export function repeated(bytes: Uint8Array, times: number): Buffer {
  return Buffer.concat(Array.from({ length: times }, () => bytes))
}

/** Writes the same bytes for as long as the connection is open, as fast as they are taken. */
export function pour(socket: Socket, bytes: Buffer): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(bytes));
  }
  socket.on('drain', more)
  more()
}
