import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { startTestServer } from './test-server.ts'

const megabyte = 1024 * 1024
/** More than the system keeps of a connection for us. */
const large = Buffer.alloc(48 * megabyte, 'x')
const call = 'GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'

/** Calls from an address of this machine and takes no answer. */
async function callFrom(t: TestContext, port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.write(call)
  await once(socket, 'readable')
  return socket
}

test('of answers that nobody takes those are ended that their network holds too many of', async (t) => {
  await using running = await startTestServer(
    (server) => server.route('GET', '/large', ({ reply }) => reply.type('text/plain').send(large)),
    { answerBytesMax: 100 * megabyte },
  )
  const twoEnded = Promise.withResolvers<void>()
  let ended = 0
  running.server.fastify.server.on('connection', (socket: Socket) =>
    socket.once('close', () => ++ended === 2 && twoEnded.resolve()),
  )
  const alone = await callFrom(t, running.port, '127.0.0.3')
  for (let i = 0; i < 3; i++) await callFrom(t, running.port, '127.0.0.2')
  await twoEnded.promise
  assert.ok((await text(alone)).length > large.length, 'who holds little gets the answer')
})
