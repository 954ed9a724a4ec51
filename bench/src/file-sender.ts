/**
 * The reference of replay: sends the files that are named in its first argument, as JSON, to whoever connects to its
 * TCP port, one after the other and as they are.
 */
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { reportReady } from '@tributary/testkit'

const files = JSON.parse(process.argv[2] ?? '') as string[] // reason: written by the scenario.

async function send(socket: Socket): Promise<void> {
  for (const file of files) await pipeline(createReadStream(file), socket, { end: false })
  socket.end()
}

const server = createServer((socket) => void send(socket))
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo // reason: a TCP server that listens has one.
reportReady(`tcp://127.0.0.1:${port}`, () => process.exit(0))
