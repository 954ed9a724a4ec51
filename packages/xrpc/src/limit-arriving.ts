import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Turns } from '@tributary/rates'
import { AddressCount } from './address-count.ts'
import { sendBareError } from './bare-response.ts'
import type { IsTrusted } from './client-address.ts'
import { canonicalAddress } from './network-of.ts'
import { RequestFeed } from './request-feed.ts'
import { XrpcError } from './xrpc-error.ts'

/** Most bytes of requests that have not arrived whole. */
export interface ArrivingBytesMax {
  /** Of all connections of a server. */
  all: number
  /** Of one network (`networkOf`). A trusted proxy may use all. */
  perAddress: number
}

/** Of a turn of the event loop, for all requests together. A handler goes on after it began, for about so long. */
const turnMs = { max: 3, eachRequest: 0.3 }

/**
 * Bounds what requests hold in memory together until they have arrived whole, because each connection may begin a large
 * one. A request that finds no room is answered with 503 `ServiceUnavailable`, or with 429 `RateLimitExceeded` when its
 * own network holds too much, with `Retry-After` of ten seconds. Its connection is closed.
 *
 * It also paces them: a connection has one request begun at a time (`RequestFeed`), and connections take turns.
 */
export function limitArriving(server: Server, max: ArrivingBytesMax, isTrusted: IsTrusted): void {
  const held = new AddressCount()
  const arrivals = new WeakMap<Socket, Arrival>()
  let begun = 0
  const turns = new Turns(() => performance.now() + begun * turnMs.eachRequest, turnMs.max)
  server.on('connection', (socket) => {
    const address = canonicalAddress(socket.remoteAddress ?? '') ?? ''
    const feed = new RequestFeed(socket, turns, (length) => {
      arrival.add(length)
      const isOver = held.of(address) > max.perAddress && !isTrusted(address)
      if (isOver || held.all > max.all) refuse(socket, feed, isOver)
    })
    const arrival = new Arrival(held, address, feed)
    arrivals.set(socket, arrival)
    socket.once('close', () => arrival.giveBack())
  })
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    begun++
    const arrival = arrivals.get(request.socket)
    if (!arrival) return
    arrival.requests++
    arrival.feed.begin(request, response)
    // What came after this request may belong to the next one, which was sent before this one was answered.
    request.once('close', () => --arrival.requests === 0 && arrival.giveBack())
  })
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    const arrival = arrivals.get(socket)
    if (!arrival) return
    const rest = arrival.feed.end()
    // Whoever takes the socket over puts what the parser has left before it.
    if (rest.length > 0) socket.unshift(rest)
    arrival.giveBack()
  })
}

/** The bytes that one connection holds. */
class Arrival {
  readonly feed: RequestFeed
  /** Requests whose heads have arrived, and that are not over. */
  requests = 0
  readonly #held: AddressCount
  readonly #address: string
  #bytes = 0

  constructor(held: AddressCount, address: string, feed: RequestFeed) {
    this.feed = feed
    this.#held = held
    this.#address = address
  }

  add(bytes: number): void {
    this.#bytes += bytes
    this.#held.add(this.#address, bytes)
  }

  /** Gives back all but what the parser has not seen. */
  giveBack(): void {
    this.add(this.feed.waitingBytes - this.#bytes)
  }
}

function refuse(socket: Socket, feed: RequestFeed, isOwnFault: boolean): void {
  // The parser takes no more of this connection.
  feed.end()
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
