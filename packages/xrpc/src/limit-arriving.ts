import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { AddressCount } from './address-count.ts'
import { sendBareError } from './bare-response.ts'
import type { IsTrusted } from './client-address.ts'
import { canonicalAddress } from './network-of.ts'
import { XrpcError } from './xrpc-error.ts'

/** Most bytes of requests that have not arrived whole. */
export interface ArrivingBytesMax {
  /** Of all connections of a server. */
  all: number
  /** Of one network (`networkOf`). A trusted proxy may use all. */
  perAddress: number
}

/**
 * Bounds what requests hold in memory together until they have arrived whole, because each connection may begin a large
 * one. A request that finds no room is answered with 503 `ServiceUnavailable`, or with 429 `RateLimitExceeded` when its
 * own network holds too much, with `Retry-After` of ten seconds. Its connection is closed.
 */
export function limitArriving(server: Server, max: ArrivingBytesMax, isTrusted: IsTrusted): void {
  const held = new AddressCount()
  const arrivals = new WeakMap<Socket, Arrival>()
  server.on('connection', (socket) => {
    const address = canonicalAddress(socket.remoteAddress ?? '') ?? ''
    const arrival = new Arrival(held, address)
    arrivals.set(socket, arrival)
    arrival.take = ({ length }) => {
      arrival.add(length)
      const isOver = held.of(address) > max.perAddress && !isTrusted(address)
      if (isOver || held.all > max.all) refuse(socket, isOver)
    }
    // The HTTP parser gets the bytes next. A request that is whole with them gives them back.
    socket.prependListener('data', arrival.take)
    socket.once('close', () => arrival.giveBack())
  })
  server.on('request', (request: IncomingMessage) => {
    const arrival = arrivals.get(request.socket)
    if (!arrival) return
    arrival.requests++
    // What came after this request may belong to the next one, which was sent before this one was answered.
    request.once('close', () => --arrival.requests === 0 && arrival.giveBack())
  })
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    const arrival = arrivals.get(socket)
    if (!arrival) return
    socket.off('data', arrival.take)
    arrival.giveBack()
  })
}

/** The bytes that one connection holds. */
class Arrival {
  take: (chunk: Buffer) => void = () => {}
  /** Requests whose heads have arrived, and that are not over. */
  requests = 0
  readonly #held: AddressCount
  readonly #address: string
  #bytes = 0

  constructor(held: AddressCount, address: string) {
    this.#held = held
    this.#address = address
  }

  add(bytes: number): void {
    this.#bytes += bytes
    this.#held.add(this.#address, bytes)
  }

  giveBack(): void {
    this.add(-this.#bytes)
  }
}

function refuse(socket: Socket, isOwnFault: boolean): void {
  // The parser takes no more of this connection.
  socket.removeAllListeners('data')
  socket.resume()
  const headers = { 'Retry-After': '10' }
  const error = isOwnFault
    ? new XrpcError(
        429,
        'RateLimitExceeded',
        'Your address sends too much at a time; try again later',
        headers,
      )
    : new XrpcError(503, 'ServiceUnavailable', 'The server receives too much; try again later', headers)
  sendBareError(socket, error)
}
