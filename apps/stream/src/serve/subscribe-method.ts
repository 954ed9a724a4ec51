/**
 * `subscribeEvents`: what a subscriber asks for is checked before the upgrade, and from then on it is a filter and a
 * position that `replay` and the fan-out take care of.
 */
import type { Socket } from 'node:net'
import { type Fanout, frameMessage } from '@tributary/fanout'
import type { SegmentDirectory } from '@tributary/segment/node'
import { XrpcError, type XrpcServer } from '@tributary/xrpc'
import { renderInfo } from '../replay/render.ts'
import type { Replay } from '../replay/replay.ts'
import { startPosition } from './start-position.ts'
import { checkSubscription, type SubscribeParams } from './subscription-params.ts'

export interface SubscribeMethodOptions {
  segments: SegmentDirectory
  replay: Replay
  fanout: Fanout
  /** How far back a cursor may reach, in milliseconds. */
  lookBackMs: number
  subscribersMax: number
  subscribersPerAddressMax: number
}

/** Adds the live stream to a server. */
export function serveSubscribe(server: XrpcServer, options: SubscribeMethodOptions): void {
  const { segments, replay, fanout, lookBackMs } = options
  const places = new SubscriberPlaces(options.subscribersMax, options.subscribersPerAddressMax)

  server.subscription<SubscribeParams>('network.social.stream.subscribeEvents', async (context) => {
    const { params, request, socket, head, clientAddress } = context
    const subscription = checkSubscription(params, request)
    places.check(clientAddress)
    const lookBack = { lookBackMs, nowMs: Date.now(), sealed: segments.sealed }
    const { afterSeq, info } = await startPosition(params.cursor, replay, lookBack)
    // An upgraded request of an HTTP server always has a TCP socket.
    fanout.accept(request, socket as Socket, head, clientAddress, (connection) => {
      places.take(clientAddress)
      const group = replay.join(subscription)
      group.members.subscribe(connection, {
        // Without a cursor the tip is where the stream is now, not where it was before the handshake.
        afterSeq: params.cursor === undefined ? replay.headSeq : afterSeq,
        ...(info ? { greeting: frameMessage('text', Buffer.from(renderInfo(info.name, info.message))) } : {}),
        onClose: () => {
          places.leave(clientAddress)
          replay.leave(group)
        },
      })
    })
  })
}

/** Counts subscribers, in all and by address. */
class SubscriberPlaces {
  readonly #max: number
  readonly #perAddressMax: number
  readonly #byAddress = new Map<string, number>()
  #taken = 0

  constructor(max: number, perAddressMax: number) {
    this.#max = max
    this.#perAddressMax = perAddressMax
  }

  /** @throws XrpcError 503 `ServiceUnavailable` or 429 `RateLimitExceeded` when there is no place. */
  check(address: string): void {
    if (this.#taken >= this.#max) {
      const message = 'This server has as many subscribers as it takes; try again later'
      throw new XrpcError(503, 'ServiceUnavailable', message, { 'Retry-After': '60' })
    }
    if ((this.#byAddress.get(address) ?? 0) >= this.#perAddressMax) {
      const message = `Your address has ${this.#perAddressMax} subscriptions open; close one first`
      throw new XrpcError(429, 'RateLimitExceeded', message, { 'Retry-After': '60' })
    }
  }

  take(address: string): void {
    this.#taken++
    this.#byAddress.set(address, (this.#byAddress.get(address) ?? 0) + 1)
  }

  leave(address: string): void {
    this.#taken--
    const left = (this.#byAddress.get(address) ?? 1) - 1
    if (left === 0) this.#byAddress.delete(address)
    else this.#byAddress.set(address, left)
  }
}
