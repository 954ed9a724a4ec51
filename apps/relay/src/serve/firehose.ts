/**
 * `com.atproto.sync.subscribeRepos`, out. Cursors are exclusive: a consumer sends the last seq that it has handled.
 * Live delivery, replay and catching up are one read path over the event log.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { EventLog } from '@tributary/event-log'
import { CloseReason, Fanout, frameMessage, type CatchUp, type FanoutGroup } from '@tributary/fanout'
import { encodeErrorFrame, encodeFrame } from '@tributary/protocol'
import type { Logger } from '@tributary/telemetry'

export class Firehose {
  readonly #log: EventLog
  readonly #group: FanoutGroup
  readonly fanout: Fanout

  constructor(log: EventLog, { logger, serverHeader }: { logger: Logger; serverHeader: string }) {
    this.#log = log
    this.fanout = new Fanout({
      errorFrame: (error, message) => frameMessage('binary', encodeErrorFrame(error, message)),
      serverHeader,
      onEnded: (subscriber, reason) =>
        logger.info({ subscriber, error: reason.error, message: reason.message }, 'consumer ended'),
      onFault: (error) => logger.error({ err: error }, 'a consumer could not be served'),
    })
    this.#group = this.fanout.group({
      headSeq: () => log.visibleSeq,
      read: (afterSeq, maxBytes) => this.#read(afterSeq, maxBytes),
    })
    log.onVisible((slices) =>
      this.#group.publish(
        slices.map((slice) => slice.bytes),
        slices.at(-1)?.lastSeq ?? 0,
      ),
    )
  }

  /** Takes over an upgrade request. @param cursor of the request, checked to be an integer of at least 0. */
  subscribe(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    clientAddress: string,
    cursor: number | undefined,
  ): void {
    const log = this.#log
    this.fanout.accept(request, socket, head, clientAddress, (connection) => {
      if (cursor !== undefined && cursor >= log.nextSeq) {
        const message = `The cursor ${cursor} is ahead of this relay, whose newest event is ${log.visibleSeq}: connect without a cursor, or with one of this relay`
        this.fanout.refuse(connection, new CloseReason(1008, 'FutureCursor', message))
      } else if (cursor !== undefined && cursor > 0 && cursor < log.lastDeletedSeq) {
        const message = `Events up to ${log.lastDeletedSeq} are no longer here; what follows starts behind them`
        const greeting = frameMessage('binary', encodeFrame('#info', { name: 'OutdatedCursor', message }))
        this.#group.subscribe(connection, { afterSeq: log.lastDeletedSeq, greeting })
      } else {
        const afterSeq = cursor === undefined ? log.visibleSeq : Math.max(cursor, log.lastDeletedSeq)
        this.#group.subscribe(connection, { afterSeq })
      }
    })
  }

  #read(afterSeq: number, maxBytes: number): CatchUp | Promise<CatchUp> {
    const slices = this.#log.readMemory(afterSeq, maxBytes)
    return slices ? this.#toCatchUp(slices) : this.#readStored(afterSeq, maxBytes)
  }

  async #readStored(afterSeq: number, maxBytes: number): Promise<CatchUp> {
    if (afterSeq < this.#log.lastDeletedSeq) {
      const message = `Position ${afterSeq} left the replay window, which starts behind ${this.#log.lastDeletedSeq}, before it was sent; resume with cursor=${afterSeq}`
      throw new CloseReason(1008, 'ConsumerTooSlow', message)
    }
    return this.#toCatchUp(await this.#log.read(afterSeq, maxBytes))
  }

  #toCatchUp(slices: { bytes: Buffer; lastSeq: number }[]): CatchUp {
    return {
      frames: slices.map((slice) => slice.bytes),
      lastSeq: slices.at(-1)?.lastSeq ?? this.#log.visibleSeq,
    }
  }
}
