/**
 * `/subscribe` as Jetstream v1 answers it, for clients that people use already (segment-format.md 15). A reader shares
 * places, handshakes and delivery with those of `subscribeEvents`. It may change its filter by a text: it then goes to
 * another group and keeps its position.
 */
import type { Socket } from 'node:net'
import { CloseReason, type Connection, type Fanout, type FanoutGroup } from '@tributary/fanout'
import type { SegmentDirectory } from '@tributary/segment/node'
import { type UpgradeContext, XrpcError, type XrpcServer } from '@tributary/xrpc'
import { jetstreamV1Dictionary } from '@tributary/zstd-dictionary'
import type { LostSeqs } from '../archive/lost-rows.ts'
import { EventDictionary } from '../delivery/event-dictionary.ts'
import type { FilterGroup } from '../delivery/filter-group.ts'
import type { Rendition } from '../delivery/rendition.ts'
import type { Delivery } from '../delivery/delivery.ts'
import { v1Rendition } from '../delivery/v1-rendition.ts'
import { clampedPosition } from './start-position.ts'
import { filterBytes, type PlaceWish, type SubscriberPlaces } from './subscriber-places.ts'
import type { TimeSeeks } from './time-seeks.ts'
import { readOptionsUpdate } from './v1-options.ts'
import { readV1Query, type V1Filter, type V1Query } from './v1-params.ts'

export interface V1SubscribeOptions {
  segments: SegmentDirectory
  delivery: Delivery
  fanout: Fanout
  lookBackMs: number
  lost: readonly LostSeqs[]
  places: SubscriberPlaces
  /** Whether an address may have one more handshake and subscriber. @throws XrpcError when it may not. */
  admit: (address: string) => void
  seeks: TimeSeeks
}

/** Adds the endpoint to a server. */
export function serveV1Subscribe(server: XrpcServer, options: V1SubscribeOptions): void {
  const { segments, delivery, fanout, lookBackMs, lost, places, admit, seeks } = options
  const silent = silentGroup(fanout, delivery)
  let dictionary: EventDictionary | undefined
  const compressed = async (): Promise<Rendition> =>
    await (dictionary ??= new EventDictionary(jetstreamV1Dictionary())).compressed(v1Rendition)

  const subscribe = async (context: UpgradeContext): Promise<void> => {
    const { request, socket, head, clientAddress } = context
    admit(clientAddress)
    const query = await server.decode(request, clientAddress, () => readV1Query(request))
    const { filter, cursor, isCompressed, requiresHello } = query
    const wish = { address: clientAddress, filterBytes: filterBytes(filter) }
    // First, so that nothing is read for a reader that has no place.
    places.check(wish)
    const rendition = isCompressed ? await compressed() : v1Rendition
    const lookBack = { lookBackMs, lost, nowMs: Date.now(), sealed: segments.sealed }
    const afterSeq = await clampedPosition(cursor, seeks.of(clientAddress), lookBack)
    // Once more: nothing is waited for between this and taking the place.
    places.check(wish)
    const reader = { filter, rendition, wish, silent, requiresHello }
    // Without a cursor the reader begins at the tip, wherever that is by then.
    const start = cursor === undefined ? startAtTip(delivery) : startAfter(afterSeq)
    // An upgraded request of an HTTP server always has a TCP socket.
    fanout.accept(
      request,
      socket as Socket,
      head,
      clientAddress,
      (connection) => subscribeReader(connection, { ...reader, start, delivery, places }),
      'dialogue',
    )
  }
  server.webSocket('/subscribe', subscribe)
}

// Made apart, because a function that is kept for a reader would have its first filter kept with it.
function startAtTip(delivery: Delivery): () => number {
  return () => delivery.headSeq
}

function startAfter(seq: number): () => number {
  return () => seq
}

interface NewReader extends Pick<V1Query, 'filter' | 'requiresHello'> {
  rendition: Rendition
  /** The place that was checked and is taken now. */
  wish: PlaceWish
  /** Has readers that have not said hello. */
  silent: FanoutGroup
  /** The seq after which the reader begins. */
  start: () => number
  delivery: Delivery
  places: SubscriberPlaces
}

function subscribeReader(connection: Connection, reader: NewReader): void {
  const { rendition, silent, start, delivery, places } = reader
  let { wish } = reader
  let group: FilterGroup | undefined
  const join = (filter: V1Filter): FilterGroup => delivery.join({ ...filter, rendition })

  const change = (filter: V1Filter): void => {
    const next = { address: wish.address, filterBytes: filterBytes(filter) }
    exchange(places, wish, next)
    wish = next
    const before = group
    group = join(filter)
    if (before) {
      before.members.move(subscriber, group.members)
      delivery.leave(before)
    } else silent.move(subscriber, group.members, start())
  }

  places.take(wish)
  if (!reader.requiresHello) group = join(reader.filter)
  const subscriber = (group?.members ?? silent).subscribe(connection, {
    afterSeq: group ? start() : delivery.headSeq,
    *readText(text) {
      const filter = yield* readOptionsUpdate(text)
      if (filter) change(filter)
    },
    onClose: () => {
      places.leave(wish)
      if (group) delivery.leave(group)
    },
  })
}

/** @throws CloseReason when there is no place for the new filter. */
function exchange(places: SubscriberPlaces, before: PlaceWish, after: PlaceWish): void {
  try {
    places.exchange(before, after)
  } catch (error) {
    if (error instanceof XrpcError) throw new CloseReason(1008, error.error, error.message)
    throw error
  }
}

/** Readers in it get nothing and are always at the tip. */
function silentGroup(fanout: Fanout, delivery: Delivery): FanoutGroup {
  const headSeq = (): number => delivery.headSeq
  return fanout.group({ headSeq, read: () => ({ frames: [], lastSeq: headSeq() }) })
}
