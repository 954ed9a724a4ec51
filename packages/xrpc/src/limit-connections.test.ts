import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { startTestServer } from './test-server.ts'

test('a network that has all connections open gives way to others, and its oldest connections stay', async (t) => {
  await using running = await startTestServer(
    (server) => {
      server.route('GET', '/_health', () => ({ status: 'ok' }))
      server.webSocket('/echo', ({ socket }) => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\n\r\n')
        socket.on('data', (data) => socket.write(data))
        return Promise.resolve()
      })
    },
    { connectionsMax: 7, trustedProxies: ['127.0.0.9'] },
  )
  const isOpen = async (socket: Socket): Promise<boolean> => {
    if (socket.closed) return false
    const answer = once(socket, 'data').then(
      () => true,
      () => false, // it is closed just now
    )
    const closed = once(socket, 'close').then(() => false)
    socket.write('GET /_health HTTP/1.1\r\nHost: x\r\n\r\n')
    return await Promise.race([answer, closed])
  }
  const open = async (address: string): Promise<Socket> => {
    const socket = await connectFrom(running.port, address)
    t.after(() => socket.destroy())
    return socket
  }
  const proxied = await open('127.0.0.9')
  const held: Socket[] = []
  for (let n = 0; n < 5; n++) held.push(await open('127.0.0.2'))
  const upgraded = await open('127.0.0.2')
  upgraded.write('GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  await once(upgraded, 'data')
  const others: Socket[] = []
  for (const address of ['127.0.0.3', '127.0.0.4', '127.0.0.3', '127.0.0.4', '127.0.0.2'])
    others.push(await open(address))
  // Two, two and one are the nearest to a third of five each.
  assert.deepEqual(await Promise.all(others.map(isOpen)), [true, true, true, false, false])
  assert.deepEqual(await Promise.all(held.map(isOpen)), [true, true, false, false, false])
  assert.deepEqual([await isOpen(proxied), await isOpen(upgraded)], [true, true])
  held[0]?.destroy()
  // Its place is free as soon as the server knows.
  let isFree = false
  for (let n = 0; n < 100 && !isFree; n++) isFree = await isOpen(await open('127.0.0.2'))
  assert.ok(isFree)
})

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
