/**
 * `subscribeEvents`: what a subscriber asks for is checked before the upgrade, and from then on it is a filter and a
 * position that `delivery` and the fan-out take care of.
 */
import type { Socket } from 'node:net'
import { type Connection, type Fanout, frameText } from '@tributary/fanout'
import type { SegmentDirectory } from '@tributary/segment/node'
import {
  type AcceptSubscription,
  CallerRate,
  type SubscriptionContext,
  type XrpcServer,
} from '@tributary/xrpc'
import type { LostSeqs } from '../archive/lost-rows.ts'
import type { EventDictionary } from '../delivery/event-dictionary.ts'
import type { WatchedCollections } from '../policy/watched-collections.ts'
import { type Info, renderInfo } from '../delivery/render.ts'
import { jetstreamRendition, ownRendition, type Rendition } from '../delivery/rendition.ts'
import { ProgressNotices } from '../delivery/progress-notices.ts'
import type { Delivery } from '../delivery/delivery.ts'
import { startPosition } from './start-position.ts'
import { filterBytes, SubscriberPlaces } from './subscriber-places.ts'
import { TimeSeeks } from './time-seeks.ts'
import { checkSubscription, type SubscribeParams } from './subscription-params.ts'
import { serveV1Subscribe } from './v1-subscribe.ts'

export interface SubscribeMethodOptions {
  segments: SegmentDirectory
  delivery: Delivery
  fanout: Fanout
  watched: Pick<WatchedCollections, 'unwatchedOf'>
  dictionary: EventDictionary
  /** Whether the method answers under its Jetstream v2 name, and `/subscribe` as Jetstream v1. Default: no. */
  isCompatible?: boolean
  /** How far back a cursor may reach, in milliseconds. */
  lookBackMs: number
  lost: readonly LostSeqs[]
  subscribersMax: number
  subscribersPerAddressMax: number
  /** Most bytes that the filters of all subscribers may take together. Default 512 MiB: 5,000,000 DIDs. */
  filterBytesMax?: number
  /** The same for one address. Default 32 MiB: 300,000 DIDs. */
  filterBytesPerAddressMax?: number
  /** Milliseconds without a message, before a subscriber that asked for it is told how far it has come. Default 15,000. */
  progressMs?: number
}

/** Readers of Jetstream know no other notices. */
const jetstreamNotices: ReadonlySet<Info['name']> = new Set(['OutdatedCursor', 'UnreadableEvents'])
const filterBytesMax = 512 * 1024 * 1024
const filterBytesPerAddressMax = 32 * 1024 * 1024
const progressMs = 15_000
/** Handshakes that one network may begin in a minute: twice the subscribers that it may have, and at least these. */
const handshakesPerMinuteMin = 1000

/** Adds the live stream to a server. */
export function serveSubscribe(server: XrpcServer, options: SubscribeMethodOptions): void {
  const { segments, delivery, fanout, watched, dictionary, lookBackMs, lost } = options
  const places = new SubscriberPlaces({ filterBytesMax, filterBytesPerAddressMax, ...options }, fanout)
  const handshakes = new CallerRate(Math.max(handshakesPerMinuteMin, 2 * options.subscribersPerAddressMax))
  const seeks = new TimeSeeks(delivery)
  const notices = new ProgressNotices(options.progressMs ?? progressMs)

  /** Before what an address asks for is decoded, which takes long if it names many DIDs. */
  const admit = (address: string): void => {
    handshakes.take(address)
    places.check({ address, filterBytes: 0 })
  }
  const subscribe = async (
    context: SubscriptionContext<SubscribeParams>,
    plain: Rendition,
  ): Promise<AcceptSubscription> => {
    const { params, request: asked, clientAddress } = context
    // The functions below are kept for as long as the connection is open, with all that they use: so not `params` or the request.
    const { cursor, progress, zstdDictionary } = params
    const filter = checkSubscription(params, asked, dictionary.id)
    const wish = { address: clientAddress, filterBytes: filterBytes(filter) }
    // First, so that nothing is read for a subscriber that has no place.
    places.check(wish)
    const rendition = zstdDictionary === undefined ? plain : await dictionary.compressed(plain)
    const subscription = { ...filter, rendition }
    const isOwn = plain === ownRendition
    const lookBack = { lookBackMs, lost, nowMs: Date.now(), sealed: segments.sealed }
    const { afterSeq, info } = await startPosition(cursor, seeks.of(clientAddress), lookBack)
    const isKnown = ({ name }: Info): boolean => isOwn || jetstreamNotices.has(name)
    // Only until it is sent, because it may name all of the collections.
    let greeting = [info, unwatchedInfo(watched.unwatchedOf(subscription.collections))]
      .filter((each) => each !== undefined && isKnown(each))
      .map((each) => rendition.frame(frameInfo(each as Info))) // without what is undefined
    const begin = (connection: Connection): void => {
      places.take(wish)
      const group = delivery.join(subscription)
      const subscriber = group.members.subscribe(connection, {
        // Without a cursor the tip is where the stream is now, not where it was before the handshake.
        afterSeq: cursor === undefined ? delivery.headSeq : afterSeq,
        ...(greeting.length > 0 ? { greeting: Buffer.concat(greeting) } : {}),
        onClose: () => {
          notices.delete(subscriber)
          places.leave(wish)
          delivery.leave(group)
        },
      })
      greeting = []
      if (progress && isOwn) notices.add(subscriber, rendition)
    }
    return (request, socket, head) => {
      // Once more: nothing is waited for between this and taking the place.
      places.check(wish)
      // An upgraded request of an HTTP server always has a TCP socket.
      fanout.accept(request, socket as Socket, head, clientAddress, begin)
    }
  }
  server.subscription<SubscribeParams>(
    'network.social.stream.subscribeEvents',
    (context) => subscribe(context, ownRendition),
    { admit },
  )
  if (options.isCompatible === true) {
    server.subscription<SubscribeParams>(
      'network.bsky.jetstream.subscribeEvents',
      (context) => subscribe(context, jetstreamRendition),
      { admit },
    )
    serveV1Subscribe(server, { segments, delivery, fanout, lookBackMs, lost, places, admit, seeks })
  }
}

/** Tells a subscriber that part of its filter, or all of it, is about nothing that is here. */
function unwatchedInfo(collections: readonly string[]): Info | undefined {
  if (collections.length === 0) return undefined
  const message = `This stream does not watch ${collections.join(', ')}: no new events of that will come`
  return { name: 'UnwatchedCollections', message, collections }
}

function frameInfo(info: Info): Uint8Array {
  return frameText(renderInfo(info))
}
