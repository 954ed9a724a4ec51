import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Logger } from '@tributary/telemetry'
import { type ErrorForm, sendBareError } from './bare-response.ts'
import { pathOf } from './request-url.ts'
import { XrpcError, toXrpcError, type ErrorNames } from './xrpc-error.ts'

/** Takes a socket over before the handshake. What it throws until it writes is answered as an HTTP error. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>

/** The paths that turn into WebSockets, and the sockets that did. */
export class Upgrades {
  readonly #logger: Logger
  readonly #errorNames: ErrorNames
  /** Of every answer that refuses an upgrade. */
  readonly #headers: Readonly<Record<string, string>>
  readonly #handlers = new Map<string, { handler: UpgradeHandler; form: ErrorForm }>()
  readonly #sockets = new Set<Duplex>()

  constructor(logger: Logger, errorNames: ErrorNames, headers: Readonly<Record<string, string>>) {
    this.#logger = logger
    this.#errorNames = errorNames
    this.#headers = headers
  }

  /** @param form how refusals of the path are told. */
  add(path: string, form: ErrorForm, handler: UpgradeHandler): void {
    this.#handlers.set(path, { handler, form })
  }

  /** Some HTTP clients offer an upgrade to HTTP/2 with every request; those stay ordinary requests. */
  accepts(request: IncomingMessage): boolean {
    return request.headers.upgrade?.toLowerCase() === 'websocket' && this.#handlers.has(pathOf(request.url))
  }

  take(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#own(socket)
    const found = this.#handlers.get(pathOf(request.url))
    if (found === undefined) {
      sendBareError(
        socket,
        new XrpcError(400, 'InvalidRequest', 'nothing here can be upgraded'),
        this.#headers,
      )
      return
    }
    // The connection may have brought answers before.
    const writtenBefore = bytesWritten(socket)
    found.handler(request, socket, head).catch((thrown: unknown) => {
      const { error, isUnexpected } = toXrpcError(thrown, this.#errorNames)
      if (isUnexpected) this.#logger.error({ err: thrown, path: pathOf(request.url) }, 'upgrade failed')
      // After the handshake an HTTP answer would be noise.
      if (bytesWritten(socket) !== writtenBefore) socket.destroy()
      else sendBareError(socket, error, this.#headers, found.form)
    })
  }

  /** Apart from `take`, because what listens to a socket keeps all that the function around it has. */
  #own(socket: Duplex): void {
    // Whoever takes the socket over adds handlers of its own; without one a reset by the peer would end the process.
    socket.on('error', () => socket.destroy())
    if ('setTimeout' in socket) (socket as Socket).setTimeout(0) // node:http hands over TCP sockets only
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Ends every upgraded socket that is still open, without a word: whoever owns it had its time for that. */
  destroySockets(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

function bytesWritten(socket: Duplex): number {
  return (socket as Socket).bytesWritten // node:http hands over TCP sockets only
}
