import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A web server on loopback whose answers a test decides. */
export class WebServer implements AsyncDisposable {
  readonly #server = createServer((request, response) => this.#answer(request, response))
  /** Paths that were asked for, in order. */
  readonly requests: string[] = []
  /** Answers whatever is asked for. */
  handler: (path: string, response: ServerResponse, request: IncomingMessage) => void = (_, response) =>
    void response.writeHead(404).end()
  connections = 0
  #waiting: { count: number; resolve: () => void } | undefined

  static async start(): Promise<WebServer> {
    const server = new WebServer()
    server.#server.on('connection', () => server.connections++)
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve))
    return server
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port // it listens on TCP
  }

  /** `localhost:PORT`. */
  get host(): string {
    return `localhost:${this.port}`
  }

  get url(): string {
    return `http://${this.host}`
  }

  /** Answers every path with its JSON, and 404 for paths that are not there. */
  serve(documents: Record<string, unknown>): void {
    this.handler = (path, response) => {
      const document = documents[path]
      if (document === undefined) response.writeHead(404).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(document))
    }
  }

  /** Resolves when so many requests have come in all. */
  async requested(count: number): Promise<void> {
    if (this.requests.length >= count) return
    await new Promise<void>((resolve) => (this.#waiting = { count, resolve }))
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? ''
    this.requests.push(path)
    this.handler(path, response, request)
    if (this.#waiting && this.requests.length >= this.#waiting.count) this.#waiting.resolve()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
