/** A stream with an empty archive, for tests of following one: real HTTP and WebSockets on loopback. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { StreamEvent } from '@tributary/protocol'
import { WebSocketServer } from 'ws'

export class SmallStream implements AsyncDisposable {
  readonly #server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ plannedThroughSeq: 0, sealedTipSeq: 0, segments: [] }))
  })
  readonly #sockets = new WebSocketServer({ server: this.#server })
  #events: StreamEvent[]

  private constructor(events: readonly StreamEvent[]) {
    this.#events = [...events]
    this.#sockets.on('connection', (socket, { url = '' }) => {
      const cursor = Number(new URL(url, 'http://localhost').searchParams.get('cursor'))
      for (const event of this.#events) if (event.seq >= cursor) socket.send(messageOf(event))
    })
  }

  static async start(events: readonly StreamEvent[]): Promise<SmallStream> {
    const stream = new SmallStream(events)
    stream.#server.listen(0, '127.0.0.1')
    await once(stream.#server, 'listening')
    return stream
  }

  /** What it sends from now on, to whom connects: set it before `restart`. */
  get events(): readonly StreamEvent[] {
    return this.#events
  }

  set events(events: readonly StreamEvent[]) {
    this.#events = [...events]
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo // it listens
    return `http://127.0.0.1:${port}`
  }

  /** Adds an event and sends it to whom is connected. */
  send(event: StreamEvent): void {
    this.#events.push(event)
    for (const socket of this.#sockets.clients) socket.send(messageOf(event))
  }

  /** Says to whom is connected that it cannot read these events. */
  tellUnreadable(firstSeq: number, lastSeq: number): void {
    const notice = { name: 'UnreadableEvents', message: 'a block is damaged', firstSeq, lastSeq }
    const payload = { $type: 'network.social.stream.subscribeEvents#info', ...notice }
    for (const socket of this.#sockets.clients) socket.send(JSON.stringify({ $type: 'message', payload }))
  }

  /** Ends the connections, as a restart does. */
  restart(): void {
    for (const socket of this.#sockets.clients) socket.close(1012)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#sockets.close()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function messageOf({ kind, ...event }: StreamEvent): string {
  const payload = { $type: `network.social.stream.subscribeEvents#${kind}`, ...event }
  return JSON.stringify({ $type: 'message', payload })
}
