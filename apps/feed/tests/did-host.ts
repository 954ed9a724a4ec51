/**
 * Serves DID documents on loopback, as a PLC directory does at `/<did>` and a host of its own at
 * `/.well-known/did.json`. Tests replace documents, delay them, or have them refused.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type DocumentAnswer = object | ((request: IncomingMessage, response: ServerResponse) => void)

export class DidHost implements AsyncDisposable {
  readonly documents = new Map<string, DocumentAnswer>()
  /** Paths asked for, in order. */
  readonly requests: string[] = []
  readonly #server = createServer((request, response) => this.#answer(request, response))

  static async start(): Promise<DidHost> {
    const host = new DidHost()
    await new Promise<void>((resolve) => {
      host.#server.listen(0, '127.0.0.1', resolve)
    })
    return host
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port // listening on TCP
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => {
      this.#server.close(resolve)
    })
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(request.url ?? '/')
    this.requests.push(path)
    const answer = this.documents.get(path)
    if (typeof answer === 'function') {
      answer(request, response)
      return
    }
    response.writeHead(answer ? 200 : 404, { 'content-type': 'application/did+ld+json' })
    response.end(JSON.stringify(answer ?? { message: 'not registered' }))
  }
}
