import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import type { Bench } from '../lib/bench.ts'
import { sampleMessages } from '../lib/dictionary-samples.ts'
import type { Figure } from '../lib/figure.ts'
import { usageOf } from '../lib/measure.ts'
import { startReader } from '../lib/services.ts'

const messagesPerSecond = 5000
const seconds = 15
const count = messagesPerSecond * seconds
/** They are sent again and again, with other seqs: to make one takes longer than to read it. */
const madeMessages = 5000
/** So often some are sent, in milliseconds. */
const everyMs = 10
const seed = 98

/** A live stream of 5,000 events a second, read by our client and by a bare socket: how many cores that takes. */
export async function clientLive(bench: Bench): Promise<Figure[]> {
  const made = Array.from(sampleMessages(madeMessages, seed))
  const messages = Array.from({ length: count }, (_, i) =>
    (made[i % madeMessages] ?? '').replace(/"seq":\d+/, `"seq":${i + 1}`),
  )
  bench.say('client-live: our client')
  const own = await coresOf(bench, messages, 'live')
  bench.say('client-live: a bare socket')
  const bare = await coresOf(bench, messages, 'socket')
  return [
    {
      name: `a live stream of ${messagesPerSecond} events a second`,
      value: own,
      unit: 'cores',
      better: 'lower',
      references: [{ name: '`ws` and `JSON.parse`, this run', value: bare }],
    },
  ]
}

async function coresOf(bench: Bench, messages: readonly string[], way: 'live' | 'socket'): Promise<number> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false })
  server.on('connection', (socket) => void send(socket, messages))
  await once(server, 'listening')
  try {
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    await using reader = await startReader(bench, {
      way,
      url: `http://127.0.0.1:${port}`,
      apiKey: 'none-is-needed',
      rows: messages.length,
    })
    const usage = await usageOf(reader, async () => await reader.request('read'))
    // By the time that the events stand for: on a busy machine they take longer.
    return usage.cpuSeconds / seconds
  } finally {
    for (const socket of server.clients) socket.terminate()
    server.close()
  }
}

async function send(socket: WebSocket, messages: readonly string[]): Promise<void> {
  const startMs = performance.now()
  for (let sent = 0; sent < messages.length && socket.readyState === socket.OPEN;) {
    const due = Math.floor(((performance.now() - startMs) * messagesPerSecond) / 1000)
    for (; sent < Math.min(due, messages.length); sent++) socket.send(messages[sent] ?? '')
    await setTimeout(everyMs)
  }
}
