/** A stream that has a few events and seals none of them, for tests of the commands that read: real HTTP and WebSockets. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'

const prefix = 'network.social.stream'

export class StaticStream implements AsyncDisposable {
  /** Query of every subscription. */
  readonly subscriptions: URLSearchParams[] = []
  /** Events after this seq are held back, although the stream has them. */
  sentThrough = Number.MAX_SAFE_INTEGER
  readonly #messages: { seq: number; text: string }[]
  readonly #server = createServer(({ url = '' }, response) => {
    response.setHeader('content-type', 'application/json')
    const isHead = url === '/ready'
    if (!isHead) response.statusCode = 401
    response.end(JSON.stringify(isHead ? { headSeq: this.#headSeq } : { error: 'AuthenticationRequired' }))
  })
  readonly #sockets = new WebSocketServer({ server: this.#server })

  private constructor(count: number, notice: object | undefined) {
    this.#messages = Array.from({ length: count }, (_, i) => ({ seq: i + 1, text: identityMessage(i + 1) }))
    this.#sockets.on('connection', (socket, { url = '' }) => {
      const query = new URL(url, 'http://localhost').searchParams
      this.subscriptions.push(query)
      if (notice) socket.send(message('info', notice))
      const cursor = Number(query.get('cursor') ?? count + 1)
      // A time as cursor begins at the last event.
      const from = cursor > count ? count : cursor
      for (const { seq, text } of this.#messages)
        if (seq >= from && seq <= this.sentThrough) socket.send(text)
    })
  }

  /** A stream with events 1 to `count`. @param notice is sent first to everyone who subscribes */
  static async start(count: number, notice?: object): Promise<StaticStream> {
    const stream = new StaticStream(count, notice)
    stream.#server.listen(0, '127.0.0.1')
    await once(stream.#server, 'listening')
    return stream
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // listening on a port
  }

  get #headSeq(): number {
    return this.#messages.length
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function identityMessage(seq: number): string {
  const did = 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa'
  const time = '2026-01-01T00:00:00.000000Z'
  return message('identity', { seq, did, time, identity: { did, seq, time } })
}

function message(kind: string, payload: object): string {
  return JSON.stringify({
    $type: 'message',
    payload: { $type: `${prefix}.subscribeEvents#${kind}`, ...payload },
  })
}
