/**
 * `com.atproto.sync.subscribeRepos`, out. Cursors are exclusive: a consumer sends the last seq that it has handled.
 * Live delivery, replay and catching up are one read path over the event log. What hidden accounts wrote is left out of
 * all of them. The log holds messages in the default framing, ready to be sent; consumers that ask for another one
 * share a group of their own, for which each message is encoded once more.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { EventLog, LogSlice } from '@tributary/event-log'
import { CloseReason, Fanout, type CatchUp, type FanoutGroup } from '@tributary/fanout'
import { encodeFrame, subprotocols } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'
import { AddressCount } from '@tributary/xrpc'
import { checkPlaces, type PlaceLimits } from './consumer-places.ts'
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
}

export class Firehose {
  readonly #log: EventLog
  readonly #hidden: HiddenAccounts
  readonly #limits: PlaceLimits
  readonly #consumers = new AddressCount()
  readonly #groups = new Map<FirehoseFraming, FanoutGroup>()
  readonly fanout: Fanout

  constructor(log: EventLog, { logger, serverHeader, hidden, lagMax, places, onEnded }: FirehoseOptions) {
    this.#log = log
    this.#hidden = hidden
    this.#limits = places
    this.fanout = new Fanout({
      errorFrame: (error, message, protocol) => errorIn(framingOf(protocol), error, message),
      serverHeader,
      protocols: subprotocols,
      ...(lagMax > 0 ? { lagMax } : {}),
      onEnded: (subscriber, { error, message }) => {
        logger.info({ subscriber, error, message }, 'consumer ended')
        onEnded(error)
      },
      onFault: (error) => logger.error({ err: error }, 'a consumer could not be served'),
    })
    for (const framing of ['v0', ...framingsV1] as const) {
      const group = this.fanout.group({
        headSeq: () => log.visibleSeq,
        read: (afterSeq, maxBytes) => this.#read(afterSeq, maxBytes, framing),
      })
      this.#groups.set(framing, group)
      log.onVisible((slices) => {
        if (group.size > 0) group.publish(this.#framesOf(slices, framing), slices.at(-1)?.lastSeq ?? 0)
      })
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
    checkPlaces(this.#consumers, this.#limits, clientAddress)
    this.fanout.accept(request, socket, head, clientAddress, (connection) => {
      this.#consumers.add(clientAddress, 1)
      socket.once('close', () => this.#consumers.add(clientAddress, -1))
      const framing = framingOf(connection.webSocket.protocol)
      if (cursor !== undefined && cursor >= log.nextSeq) {
        const message = `The cursor ${cursor} is ahead of this relay, whose newest event is ${log.visibleSeq}: connect without a cursor, or with one of this relay`
        this.fanout.refuse(connection, new CloseReason(1008, 'FutureCursor', message))
      } else if (cursor !== undefined && cursor > 0 && cursor < log.lastDeletedSeq) {
        const message = `Events up to ${log.lastDeletedSeq} are no longer here; what follows starts behind them`
        const greeting = messageIn(framing, encodeFrame('#info', { name: 'OutdatedCursor', message }))
        this.#groups.get(framing)?.subscribe(connection, { afterSeq: log.lastDeletedSeq, greeting })
      } else {
        const afterSeq = cursor === undefined ? log.visibleSeq : Math.max(cursor, log.lastDeletedSeq)
        this.#groups.get(framing)?.subscribe(connection, { afterSeq })
      }
    })
  }

  #read(afterSeq: number, maxBytes: number, framing: FirehoseFraming): CatchUp | Promise<CatchUp> {
    const slices = this.#log.readMemory(afterSeq, maxBytes)
    return slices ? this.#toCatchUp(slices, framing) : this.#readStored(afterSeq, maxBytes, framing)
  }

  async #readStored(afterSeq: number, maxBytes: number, framing: FirehoseFraming): Promise<CatchUp> {
    const { lastDeletedSeq, visibleSeq } = this.#log
    if (afterSeq < lastDeletedSeq) {
      const message = `Position ${afterSeq} left the replay window, which starts behind ${lastDeletedSeq}, before it was sent; ${visibleSeq - afterSeq} events behind; resume with cursor=${afterSeq}`
      throw new CloseReason(1008, 'ConsumerTooSlow', message)
    }
    return this.#toCatchUp(await this.#log.read(afterSeq, maxBytes), framing)
  }

  #toCatchUp(slices: LogSlice[], framing: FirehoseFraming): CatchUp {
    return {
      frames: this.#framesOf(slices, framing),
      lastSeq: slices.at(-1)?.lastSeq ?? this.#log.visibleSeq,
    }
  }

  /** What readers get of these records: WebSocket messages, as the log holds them or encoded anew. */
  #framesOf(slices: LogSlice[], framing: FirehoseFraming): Buffer[] {
    if (framing === 'v0') return slices.flatMap((slice) => this.#hidden.visible(slice))
    return slices.flatMap((slice) => {
      const rows = Array.from({ length: slice.count }, (_, row) => row)
      return rows
        .filter((row) => !this.#hidden.isHidden(slice, row))
        .map((row) => messageIn(framing, messageOf(slice.payloadAt(row))))
    })
  }
}

/** The message within a stored WebSocket frame. */
function messageOf(frame: Buffer): Buffer {
  const short = frame.readUInt8(1)
  return frame.subarray(short < 126 ? 2 : short === 126 ? 4 : 10)
}
