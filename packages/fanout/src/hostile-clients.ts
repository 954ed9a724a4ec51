/** A thread whose consumers send what fills memory, so that what the server's thread has in use is the server's own. */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { clientFrame, connectBare } from './bare-consumer.ts'

type Attack = (socket: Socket) => Promise<void>
export type AttackName =
  | 'messages in one-byte fragments'
  | 'messages in empty fragments'
  | 'a message of 64 kB'
  | 'too many pings and the beginning of a frame'
  | 'pings as many as it may and the beginning of a frame'
  | 'a frame byte by byte'

const pings = (count: number): Buffer[] =>
  Array.from({ length: count }, () => clientFrame('ping', 'x'.repeat(125)))
const isGone = async (socket: Socket): Promise<void> => {
  if (!socket.closed) await new Promise<void>((resolve) => socket.once('close', () => resolve()))
}
/** Sends, and waits until the server has ended the connection, which it must do at once. */
const untilEnded =
  (...parts: Buffer[]): Attack =>
  async (socket) => {
    socket.write(Buffer.concat(parts))
    await Promise.race([isGone(socket), delay(10_000)])
  }
const fragments = (payload: string): Buffer[] => [
  clientFrame('text', payload, false),
  ...Array.from({ length: 16_000 }, () => clientFrame('continue', payload, false)),
]
/** The head of a message of `length` bytes, masked with zeros. */
const headOf = (length: number): Buffer => Buffer.from([0x82, 0xfe, length >> 8, length & 255, 0, 0, 0, 0])

const attacks: Record<AttackName, Attack> = {
  'messages in one-byte fragments': untilEnded(...fragments('x')),
  'messages in empty fragments': untilEnded(...fragments('')),
  'a message of 64 kB': untilEnded(headOf(65_000), Buffer.alloc(65_000)),
  'too many pings and the beginning of a frame': untilEnded(...pings(500), headOf(1000)),
  'pings as many as it may and the beginning of a frame': async (socket) => {
    await new Promise((resolve) => socket.write(Buffer.concat([...pings(100), headOf(1000)]), resolve))
  },
  'a frame byte by byte': async (socket) => {
    for (const byte of Buffer.concat([headOf(1000), Buffer.alloc(900)])) {
      if (socket.destroyed) return
      await new Promise((resolve) => socket.write(Buffer.from([byte]), resolve))
      await nextTurn()
    }
  },
}

const { port, count, attack } = workerData as { port: number; count: number; attack: AttackName } // set by the test
const sockets = await Promise.all(Array.from({ length: count }, () => connectBare(port)))
for (const socket of sockets) socket.resume()
parentPort?.postMessage('connected')
if (parentPort) await once(parentPort, 'message')
await Promise.all(sockets.map((socket) => attacks[attack](socket)))
parentPort?.postMessage('sent')
