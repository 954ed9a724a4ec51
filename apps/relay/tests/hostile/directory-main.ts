/**
 * A process of its own: a real PLC directory, and in front of it a proxy that can be slow, fail or be away. The proxy
 * also holds documents that hostile accounts have registered, without the cost of a signed operation for each: a host
 * may have any number of accounts, and any document.
 */
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerRequests, reportReady, startPlc } from '@tributary/testkit'
import type { Weather } from './directory.ts'

const plc = await startPlc()
const documents = new Map<string, string>()
let weather: Weather = {}

const server = createServer((incoming, response) => {
  void answer(incoming, response).catch(() => response.destroy())
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
const { port } = server.address() as AddressInfo // it listens on a port

answerRequests({
  registryUrl: () => plc.url,
  weather: (next: Weather) => {
    weather = next
    if (weather.isAway) server.closeAllConnections()
  },
})
reportReady(`http://127.0.0.1:${port}`, () => {
  server.closeAllConnections()
  server.close()
  void plc.stop().then(() => process.exit(0))
})

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = incoming.url ?? '/'
  if (incoming.method === 'PUT') return register(incoming, response)
  if (weather.isAway) return void response.destroy()
  if (weather.delayMs !== undefined) await sleep(weather.delayMs)
  if (weather.status !== undefined) {
    response.writeHead(weather.status, { 'retry-after': '1' }).end('{"message":"the directory is not well"}')
    return
  }
  const document = documents.get(decodeURIComponent(path.slice(1)))
  if (document !== undefined) {
    response.writeHead(200, { 'content-type': 'application/did+ld+json' }).end(document)
    return
  }
  const forwarded = request(`${plc.url}${path}`, (given) => {
    response.writeHead(given.statusCode ?? 500, given.headers)
    given.pipe(response)
  })
  forwarded.on('error', () => response.destroy())
  forwarded.end()
}

async function register(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const parts: Buffer[] = []
  for await (const part of incoming) parts.push(part as Buffer) // a request without an encoding gives bytes
  documents.set(decodeURIComponent((incoming.url ?? '/').slice(1)), Buffer.concat(parts).toString())
  response.writeHead(204).end()
}
