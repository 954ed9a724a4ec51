import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { startTestServer } from './test-server.ts'

const connectFrom = async (port: number, localAddress: string) => {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

test('a client that has too many connections open keeps no other client out', async (t) => {
  await using running = await startTestServer(
    (server) => server.route('GET', '/_health', () => ({ status: 'ok' })),
    { connectionsPerAddressMax: 3, trustedProxies: ['127.0.0.9'] },
  )
  const open = async (address: string) => {
    const socket = await connectFrom(running.port, address)
    t.after(() => socket.destroy())
    return socket
  }
  const held = [await open('127.0.0.2'), await open('127.0.0.2'), await open('127.0.0.2')]
  const fourth = await open('127.0.0.2')
  if (!fourth.closed) await once(fourth, 'close')
  assert.equal((await fetch(`${running.url}/_health`)).status, 200)

  // A place is free as soon as a connection is gone.
  held[0]?.end('GET /_health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  const [first] = held
  if (first && !first.closed) {
    first.resume()
    await once(first, 'close')
  }
  const again = await open('127.0.0.2')
  again.write('GET /_health HTTP/1.1\r\nHost: x\r\n\r\n')
  assert.match(String((await once(again, 'data'))[0]), /^HTTP\/1\.1 200 /)

  // A trusted proxy speaks for many.
  for (let i = 0; i < 5; i++) {
    const proxied = await open('127.0.0.9')
    proxied.write('GET /_health HTTP/1.1\r\nHost: x\r\n\r\n')
    assert.match(String((await once(proxied, 'data'))[0]), /^HTTP\/1\.1 200 /)
  }
})
