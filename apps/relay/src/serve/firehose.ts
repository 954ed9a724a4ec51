/**
 * `com.atproto.sync.subscribeRepos`, out. Cursors are exclusive: a consumer sends the last seq that it has handled.
 * Live delivery, replay and catching up are one read path over the event log. What hidden accounts wrote is left out of
 * all of them. The log holds messages in the default framing, ready to be sent; consumers that ask for another one
 * share a group of their own and what was encoded for it lately.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { EventLog, LogSlice } from '@tributary/event-log'
import { CloseReason, Fanout, type CatchUp, type FanoutClock, type FanoutGroup } from '@tributary/fanout'
import { encodeFrame, subprotocols } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { AddressCount, siteOf } from '@tributary/xrpc'
import { checkPlaces, type PlaceLimits } from './consumer-places.ts'
import { EncodedEvents } from './encoded-events.ts'
import { errorIn, framingOf, framingsV1, messageIn, type FirehoseFraming } from './firehose-framing.ts'
import type { HiddenAccounts } from './hidden-accounts.ts'

export interface FirehoseOptions {
  logger: Logger
  serverHeader: string
  hidden: HiddenAccounts
  /** Events that a consumer may be behind. 0: any number. */
  lagMax: number
  places: PlaceLimits
  /** Told of consumers that were ended, and by which error. */
  onEnded: (error: string) => void
  /** Told of an event that readers of a framing did not get, because it cannot be encoded. */
  onNotEncoded: (framing: string) => void
  /** Default: that of the machine. */
  clock?: FanoutClock
}

/** What is kept of the newest events that were encoded, for each framing that the log does not hold. */
const encodedBytesMax = 4 * 1024 * 1024
/** Bytes of the log that one read encodes: some two milliseconds. */
const encodedBytesPerRead = 64 * 1024
/** Bytes of one commit of the log that are encoded in one turn for live consumers: some eight milliseconds. */
const encodedLiveBytesMax = 256 * 1024

export class Firehose {
  readonly #log: EventLog
  readonly #hidden: HiddenAccounts
  readonly #limits: PlaceLimits
  readonly #consumers = new AddressCount()
  readonly #groups = new Map<FirehoseFraming, FanoutGroup>()
  readonly fanout: Fanout

  constructor(
    log: EventLog,
    { logger, serverHeader, hidden, lagMax, places, onEnded, onNotEncoded, clock }: FirehoseOptions,
  ) {
    this.#log = log
    this.#hidden = hidden
    this.#limits = places
    this.fanout = new Fanout({
      errorFrame: (error, message, protocol) => errorIn(framingOf(protocol), error, message),
      serverHeader,
      networkOf: siteOf,
      protocols: subprotocols,
      ...(lagMax > 0 ? { lagMax } : {}),
      ...(clock && { clock }),
      onEnded: (subscriber, { error, message }) => {
        logger.info({ subscriber, error, message }, 'consumer ended')
        onEnded(error)
      },
      onFault: (error) => logger.error({ err: error }, 'a consumer could not be served'),
    })
    const headSeq = (): number => log.visibleSeq
    const plain = this.fanout.group({ headSeq, read: (afterSeq, maxBytes) => this.#read(afterSeq, maxBytes) })
    this.#groups.set('v0', plain)
    log.onVisible((slices) => {
      if (plain.size === 0) return
      const frames = slices.flatMap((slice) => hidden.visible(slice))
      plain.publish(frames, this.#endOf(slices))
    })
    for (const framing of framingsV1) {
      const encoded = new EncodedEvents(framing, encodedBytesMax, (seq, _, error) => {
        logger.error({ seq, framing, err: error }, 'an event cannot be encoded, and is left out of a framing')
        onNotEncoded(framing)
      })
      const group = this.fanout.group({
        headSeq,
        read: (afterSeq, maxBytes) =>
          this.#readEncoded(encoded, afterSeq, Math.min(maxBytes, encodedBytesPerRead)),
      })
      this.#groups.set(framing, group)
      log.onVisible((slices) => this.#publishEncoded(group, encoded, slices))
    }
  }

  /**
   * Takes over an upgrade request.
   * @param cursor of the request, checked to be an integer of at least 0.
   * @throws XrpcError 429 `RateLimitExceeded` when there are too many consumers.
   */
  subscribe(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    clientAddress: string,
    cursor: number | undefined,
  ): void {
    const log = this.#log
    // Nothing is waited for between this and taking the place.
    const hasRoom = (): boolean => this.fanout.hasRoomFor(clientAddress)
    checkPlaces(this.#consumers, this.#limits, clientAddress, hasRoom)
    this.fanout.accept(request, socket, head, clientAddress, (connection) => {
      if (this.#consumers.all >= this.#limits.consumersMax) this.fanout.makeRoomFor(clientAddress)
      this.#consumers.add(clientAddress, 1)
      socket.once('close', () => this.#consumers.add(clientAddress, -1))
      const framing = framingOf(connection.webSocket.protocol)
      if (cursor !== undefined && cursor >= log.nextSeq) {
        const message = `The cursor ${cursor} is ahead of this relay, whose newest event is ${log.visibleSeq}: connect without a cursor, or with one of this relay`
        this.fanout.refuse(connection, new CloseReason(1008, 'FutureCursor', message))
      } else if (cursor !== undefined && cursor > 0 && cursor < log.lastDeletedSeq) {
        const message = `Events up to ${log.lastDeletedSeq} are no longer here; what follows starts after them`
        const greeting = messageIn(framing, encodeFrame('#info', { name: 'OutdatedCursor', message }))
        this.#groups.get(framing)?.subscribe(connection, { afterSeq: log.lastDeletedSeq, greeting })
      } else {
        const afterSeq = cursor === undefined ? log.visibleSeq : Math.max(cursor, log.lastDeletedSeq)
        this.#groups.get(framing)?.subscribe(connection, { afterSeq })
      }
    })
  }

  /** What the log holds, as it is. */
  #read(afterSeq: number, maxBytes: number): CatchUp | Promise<CatchUp> {
    const slices = this.#log.readMemory(afterSeq, maxBytes)
    const toCatchUp = (found: LogSlice[]): CatchUp => ({
      frames: found.flatMap((slice) => this.#hidden.visible(slice)),
      lastSeq: this.#endOf(found),
      free: () => freeAll(found),
    })
    return slices ? toCatchUp(slices) : this.#readStored(afterSeq, maxBytes).then(toCatchUp)
  }

  /** What the log holds, in another framing. */
  async #readEncoded(encoded: EncodedEvents, afterSeq: number, maxBytes: number): Promise<CatchUp> {
    const slices = this.#log.readMemory(afterSeq, maxBytes) ?? (await this.#readStored(afterSeq, maxBytes))
    const found = this.#encode(encoded, slices, maxBytes)
    freeAll(slices)
    return found
  }

  #publishEncoded(group: FanoutGroup, encoded: EncodedEvents, slices: LogSlice[]): void {
    if (group.size === 0) return
    const bytes = slices.reduce((sum, slice) => sum + slice.bytes.length, 0)
    if (bytes > encodedLiveBytesMax) return group.publishUnmade()
    const { frames, lastSeq } = this.#encode(encoded, slices, Infinity)
    group.publish(frames, lastSeq)
  }

  /** The messages of slices, up to about so many bytes of the log: a slice may hold megabytes. */
  #encode(encoded: EncodedEvents, slices: readonly LogSlice[], bytesMax: number): CatchUp {
    const frames: Uint8Array[] = []
    let bytes = 0
    for (const slice of slices) {
      for (let row = 0; row < slice.count; row++) {
        if (bytes >= bytesMax) return { frames, lastSeq: slice.seqAt(row) - 1 }
        bytes += slice.payloadAt(row).length
        const frame = this.#hidden.isHidden(slice, row) ? undefined : encoded.frameOf(slice, row)
        if (frame) frames.push(frame)
      }
    }
    return { frames, lastSeq: this.#endOf(slices) }
  }

  async #readStored(afterSeq: number, maxBytes: number): Promise<LogSlice[]> {
    const { lastDeletedSeq } = this.#log
    if (afterSeq < lastDeletedSeq) {
      const message = `Position ${afterSeq} left the replay window, which starts after ${lastDeletedSeq}, before it was sent`
      throw new CloseReason(1008, 'ConsumerTooSlow', message)
    }
    return this.#log.read(afterSeq, maxBytes)
  }

  /** Where readers stand who were given these. */
  #endOf(slices: readonly LogSlice[]): number {
    return slices.at(-1)?.lastSeq ?? this.#log.visibleSeq
  }
}

/** Gives back what a read took from the disk. */
function freeAll(slices: readonly LogSlice[]): void {
  for (const slice of slices) slice.free()
}
