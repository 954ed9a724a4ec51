import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A consumer without any WebSocket library, after the handshake: it sends and reads just what a test does with it. */
export async function connectBare(port: number, path = '/'): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {}) // a consumer that is cut off may find that out by a reset
  socket.setNoDelay(true)
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  )
  await once(socket, 'data')
  return socket
}

/** Frames as a client sends them, masked with zeros. */
export function clientFrame(
  opcode: 'continue' | 'text' | 'ping',
  payload: string,
  isLast: boolean = true,
): Buffer {
  const opcodes = { continue: 0, text: 1, ping: 9 }
  const head = [opcodes[opcode] | (isLast ? 0x80 : 0), 0x80 | payload.length, 0, 0, 0, 0]
  return Buffer.concat([Buffer.from(head), Buffer.from(payload)])
}
