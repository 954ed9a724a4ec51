import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Fixed ports lie below the range that systems use for outgoing connections (32768 and up):
 * a server that restarts on its port must not find an outgoing connection there.
 */
const firstPort = 10_000
const portCount = 22_000
const attemptsMax = 500
/** Ports among these that `fetch` refuses, because the Fetch standard counts them as those of other protocols. */
const badPorts: readonly number[] = [10_080]

/** Ports are tried upwards from a place of this process's own, so that neighbours rarely meet. */
let offset = (process.pid * 211 + Math.floor(Math.random() * 200)) % portCount

/**
 * A TCP port of the loopback interface that nothing listens on, below 32768, that `fetch` takes. No other process that
 * asks here gets the same port while this one lives: the UDP socket of the same number, held until
 * this process ends, is the lock. Throws when 500 ports in a row are taken.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const port = firstPort + (offset++ % portCount)
    if (!badPorts.includes(port) && (await lock(port)) && (await isFree(port))) return port
  }
  throw new Error(`none of ${attemptsMax} loopback ports is free`)
}

async function lock(port: number): Promise<boolean> {
  const socket = createSocket('udp4')
  socket.unref()
  socket.bind({ port, address: '127.0.0.1', exclusive: true })
  return listens(socket)
}

async function isFree(port: number): Promise<boolean> {
  // On all addresses, so that a port in use on any 127.x address counts as taken.
  const server = createServer()
  server.listen({ port, exclusive: true })
  if (!(await listens(server))) return false
  server.close()
  await once(server, 'close')
  return true
}

async function listens(socket: NodeJS.EventEmitter): Promise<boolean> {
  try {
    await once(socket, 'listening')
    return true
  } catch (error) {
    const taken = ['EADDRINUSE', 'EACCES']
    if (error instanceof Error && 'code' in error && taken.includes(String(error.code))) {
      return false
    }
    throw error
  }
}
