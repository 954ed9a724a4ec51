import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { memoryInUse } from '@tributary/testkit'
import { connectBare } from './bare-consumer.ts'
import type { AttackName } from './hostile-clients.ts'
import { startFront } from './start-front.ts'

/** Bytes that this thread has in use. */
function bytesInUse(): number {
  const { heapUsed, external } = memoryInUse()
  return heapUsed + external
}

const attacks: AttackName[] = [
  'messages in one-byte fragments',
  'messages in empty fragments',
  'a message of 64 kB',
  'too many pings and the beginning of a frame',
  'pings as many as it may and the beginning of a frame',
  'a frame byte by byte',
]
const consumers = 50

for (const attack of attacks) {
  test(`a consumer that sends ${attack} makes us keep less than 32 kB`, async () => {
    await using front = await startFront()
    const workerData = { port: front.port, count: consumers, attack }
    const clients = new Worker(new URL('./hostile-clients.ts', import.meta.url), { workerData })
    await once(clients, 'message')
    const before = bytesInUse()
    clients.postMessage('attack')
    await once(clients, 'message')
    // A consumer that is ended has a second to go.
    const each = () => Math.round((bytesInUse() - before) / consumers)
    for (const until = Date.now() + 10_000; each() >= 32_000 && Date.now() < until;) await delay(50)
    const kept = each()
    await clients.terminate()
    assert.ok(kept < 32_000, `${kept} bytes each`)
  })
}

test('a consumer that never finishes a frame is cut off, though bytes of it come all the time', async () => {
  await using front = await startFront({ pingMs: 50 })
  const socket = await connectBare(front.port)
  socket.resume()
  socket.write(Buffer.from([0x82, 0xfe, 4, 0, 0, 0, 0, 0]))
  const drip = setInterval(() => socket.write('\0'), 20)
  await new Promise((resolve) => socket.once('close', resolve))
  clearInterval(drip)
  for (const until = Date.now() + 10_000; front.fanout.size > 0 && Date.now() < until;) await delay(10)
  assert.equal(front.fanout.size, 0)
})
