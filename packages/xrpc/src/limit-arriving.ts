import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Turns } from '@tributary/rates'
import { AddressCount } from './address-count.ts'
import { sendBareError } from './bare-response.ts'
import type { IsTrusted } from './client-address.ts'
import { endLargest, type Holder } from './end-largest.ts'
import { canonicalAddress, siteOf } from './network-of.ts'
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

/** How much of what requests may hold is left when they held too much, so that it is looked for seldom. */
const keptShare = 63 / 64

const retryLater = { 'Retry-After': '10' }
const tooMuchOfOne = new XrpcError(
  429,
  'RateLimitExceeded',
  'Your address sends too much at a time; try again later',
  retryLater,
)
const tooMuchOfAll = new XrpcError(
  503,
  'ServiceUnavailable',
  'The server receives too much; try again later',
  retryLater,
)

/**
 * Bounds what requests hold in memory together until they have arrived whole, because each connection may begin a large
 * one. When a network holds too much, whichever of its connections sends more is answered with 429 `RateLimitExceeded`.
 * When all together do, the connection that holds most, of the network that holds most, is answered with 503
 * `ServiceUnavailable`. Both have a `Retry-After` of ten seconds, and the connection is closed.
 *
 * It also paces them: a connection has one request begun at a time (`RequestFeed`), and connections take turns.
 */
export function limitArriving(server: Server, max: ArrivingBytesMax, isTrusted: IsTrusted): void {
  const held = new AddressCount()
  const arrivals = new Map<Socket, Arrival>()
  let begun = 0
  const turns = new Turns(() => performance.now() + begun * turnMs.eachRequest, turnMs.max)
  server.on('connection', (socket) => {
    const address = canonicalAddress(socket.remoteAddress ?? '') ?? ''
    const feed = new RequestFeed(socket, turns, (length) => {
      arrival.add(length)
      if (held.of(address) > max.perAddress && !isTrusted(address)) arrival.refuse(tooMuchOfOne)
      if (held.all > max.all)
        endLargest(arrivals.values(), max.all * keptShare, (largest) => largest.refuse(tooMuchOfAll))
    })
    const arrival = new Arrival(held, address, socket, feed)
    arrivals.set(socket, arrival)
    socket.once('close', () => {
      arrivals.delete(socket)
      arrival.giveBack()
    })
  })
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    begun++
    const arrival = arrivals.get(request.socket)
    if (!arrival) return
    arrival.requests++
    arrival.feed.begin(response)
    // What came after this request may belong to the next one, which was sent before this one was answered.
    request.once('close', () => --arrival.requests === 0 && arrival.giveBack())
  })
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    const arrival = arrivals.get(socket)
    if (!arrival) return
    arrivals.delete(socket)
    const rest = arrival.feed.end()
    // Whoever takes the socket over puts what the parser has left before it.
    if (rest.length > 0) socket.unshift(rest)
    arrival.giveBack()
  })
}

/** The bytes that one connection holds. */
class Arrival implements Holder {
  readonly network: string
  readonly feed: RequestFeed
  bytes = 0
  /** Requests whose heads have arrived, and that are not over. */
  requests = 0
  readonly #held: AddressCount
  readonly #address: string
  readonly #socket: Socket

  constructor(held: AddressCount, address: string, socket: Socket, feed: RequestFeed) {
    this.network = siteOf(address)
    this.feed = feed
    this.#held = held
    this.#address = address
    this.#socket = socket
  }

  add(bytes: number): void {
    this.bytes += bytes
    this.#held.add(this.#address, bytes)
  }

  /** Gives back all but what the parser has not seen. */
  giveBack(): void {
    this.add(this.feed.waitingBytes - this.bytes)
  }

  /** Answers with an error and closes the connection. The parser takes no more of it. */
  refuse(error: XrpcError): void {
    const { isAnswering } = this.feed
    this.feed.end()
    this.giveBack()
    this.#socket.resume()
    // Within an answer that has begun, the error would be taken for a part of it.
    if (isAnswering) this.#socket.destroy()
    else sendBareError(this.#socket, error)
  }
}
