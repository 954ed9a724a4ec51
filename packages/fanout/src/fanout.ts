/**
 * One front for any number of WebSocket consumers of an ordered log.
 *
 * A consumer is a filter and a position, never a queue: what it has not taken yet it reads later from the log, so one
 * that is slow, hostile or gone costs the others nothing. Messages come framed once and are shared by all who want
 * them; the interval between flushes grows with the number of live readers, since a write costs the same whatever it
 * carries. A consumer that we end is told why.
 */
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { FairTurns, SharedPlaces, Turns } from '@tributary/rates'
import type { WebSocket, WebSocketServer } from 'ws'
import { ArrivingTexts } from './arriving-texts.ts'
import { BatchBuffer } from './batch-buffer.ts'
import { ClientFeed } from './client-feed.ts'
import { systemClock, type FanoutClock } from './clock.ts'
import { CloseReason } from './close-reason.ts'
import { ConsumerWatch } from './consumer-watch.ts'
import { cutOffAfter } from './cut-off.ts'
import { FanoutGroup, type CatchUpSource } from './fanout-group.ts'
import type { FanoutOptions } from './fanout-options.ts'
import { clientLimits, newWebSocketServer, type ConnectionStyle } from './from-client.ts'
import { sayWhy, Subscriber, type Connection, type SubscriberInfo } from './subscriber.ts'

const flushMsPerReader = 0.15
const readersWithoutDelay = 8
const readBytes = { min: 4 * 1024, max: 256 * 1024 }
/**
 * Turns that all readers which are behind share, so that any number of them delays live events little: an event passes a
 * service in some five turns of the event loop. They get half of a core; live events have the rest. Two reads go on at a
 * time, so that one slow disk read does not hold up all.
 */
const catchUpTurns = { underWayMax: 2, sliceMs: 2 }
/** Turns for pieces of long texts: all consumers share half of the event loop, in turn by network. */
const textTurns = { sliceMs: 2 }
/** Bytes of texts of all dialogues together that wait to be read. Above it the consumer with the largest is cut off. */
const arrivingTextBytesMax = 32 * 1024 * 1024
/** A consumer that sent what it may not has `ms` to read why, or no time if more than `heldBytesMax` of it are held. */
const abuseGrace = { ms: 1000, heldBytesMax: 128 * 1024 }
/** Bytes before the payload of a control frame that a client sends. */
const maskedHeadBytes = 6
/** A service that ends waits so long for its consumers to be gone. */
const closeMsMax = 2000

export class Fanout {
  readonly #options: FanoutOptions
  readonly #servers: Readonly<Record<ConnectionStyle, WebSocketServer>>
  readonly #arrivingTexts: ArrivingTexts
  readonly #subscribers = new Map<number, Subscriber>()
  /** By network. */
  readonly #places = new SharedPlaces<Subscriber>()
  readonly #dirty = new Set<FanoutGroup>()
  /** Publishes to groups what became visible since the last flush. */
  #publishRest: (() => void) | undefined
  readonly #watch: ConsumerWatch
  readonly #batch = new BatchBuffer()
  readonly #clock: FanoutClock
  readonly #networkOf: (address: string) => string
  readonly #turns: Turns
  readonly #catchUpTurns: FairTurns
  readonly #textTurns: FairTurns
  #flushTimer: Disposable | undefined
  #isFlushing = false
  #lastFlushMs = 0
  #live = 0
  #nextId = 1
  #isClosing = false

  constructor(options: FanoutOptions) {
    this.#options = options
    const { clock = systemClock, networkOf = (address) => address } = options
    this.#clock = clock
    this.#networkOf = networkOf
    this.#turns = new Turns(() => clock.elapsedMs())
    this.#catchUpTurns = new FairTurns({ ...catchUpTurns, clock })
    this.#textTurns = new FairTurns({ ...textTurns, clock })
    this.#servers = {
      push: newWebSocketServer('push', options),
      dialogue: newWebSocketServer('dialogue', options),
    }
    this.#arrivingTexts = new ArrivingTexts(arrivingTextBytesMax, networkOf)
    this.#watch = new ConsumerWatch(
      { ...options, clock },
      {
        subscribers: () => this.#subscribers.values(),
        end: (subscriber, reason) => this.#end(subscriber, reason),
      },
    )
  }

  /** Subscribers, live or not. */
  get size(): number {
    return this.#subscribers.size
  }

  /** A group for one filter. It lives as long as its members; the caller keeps it for finding it again. */
  group(source: CatchUpSource): FanoutGroup {
    const networkOf = this.#networkOf
    return new FanoutGroup(
      {
        readBytesMax: () => this.#readBytesMax(),
        takeTurn: ({ remoteAddress }, read) => this.#catchUpTurns.run(networkOf(remoteAddress), read),
        scheduleFlush: (group) => {
          this.#dirty.add(group)
          this.#scheduleFlush()
        },
        publishRest: () => this.#takeRest(),
        takeTextTurn: ({ remoteAddress }, piece) => this.#textTurns.run(networkOf(remoteAddress), piece),
        holdText: (connection, bytes) => {
          connection.feed.hold(bytes)
          this.#arrivingTexts.keep(connection, bytes)
        },
        releaseText: (connection, bytes) => {
          this.#arrivingTexts.less(connection, bytes)
          connection.feed.release(bytes)
        },
        closeSubscriber: (subscriber, reason) => this.#end(subscriber, reason),
        addSubscriber: (connection, group, afterSeq) => this.#add(connection, group, afterSeq),
        countLive: (change) => {
          this.#live += change
        },
        noteHeld: (subscriber, frames) => this.#watch.noteHeld(subscriber, frames),
        noteFlushed: (subscriber, frames) => this.#watch.noteFlushed(subscriber, frames),
        batch: this.#batch,
      },
      source,
    )
  }

  /**
   * Finishes the WebSocket handshake of an upgrade request. A bad handshake is answered here and never reaches `ready`.
   * @param style Default `push`.
   */
  accept(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    remoteAddress: string,
    ready: (connection: Connection) => void,
    style: ConnectionStyle = 'push',
  ): void {
    // A copy, because a part of a text keeps all of it in memory: the header, of up to a megabyte, would stay for as long as
    // the connection is open.
    const userAgent = Buffer.from((request.headers['user-agent'] ?? '').slice(0, 256)).toString()
    this.#servers[style].handleUpgrade(request, socket, head, (webSocket) =>
      ready(this.#connected({ style, webSocket, socket, remoteAddress, userAgent })),
    )
  }

  /** Its functions are kept for as long as the connection is open, and `ready` must not be: it may hold a large filter. */
  #connected(parts: Omit<Connection, 'feed'>): Connection {
    const { style, webSocket, socket } = parts
    const feed = new ClientFeed(socket, {
      turns: this.#turns,
      ...clientLimits[style],
      ...(style === 'dialogue' && { onChunk: (bytes) => this.#arrivingTexts.add(connection, bytes) }),
    })
    feed.onTooMany = () => this.#cutOffAbuser(connection)
    const connection: Connection = { ...parts, feed }
    socket.setNoDelay(true)
    // After a forbidden frame, `ws` has sent the close code already. Errors of the socket end in `close`.
    webSocket.on('error', () => this.#cutOff(connection))
    answerPings(webSocket, socket)
    for (const event of ['ping', 'message']) webSocket.on(event, () => feed.countFrame())
    if (style === 'dialogue') this.#countTexts(connection)
    return connection
  }

  /** Tells a consumer that was not subscribed why, and closes it. */
  refuse(connection: Connection, reason: CloseReason): void {
    sayWhy(connection, reason, this.#errorFrame(connection, reason))
    cutOffAfter(abuseGrace.ms, connection.socket, this.#clock)
  }

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#subscribers.values(), (subscriber) => subscriber.info(subscriber.group.headSeq))
  }

  /** What a subscriber reads from, and with which filter. Undefined when there is none of that id. */
  sourceOf(id: number): CatchUpSource | undefined {
    return this.#subscribers.get(id)?.group.source
  }

  /** Ends one consumer. False when there is none of that id. */
  disconnect(id: number, reason: CloseReason): boolean {
    const subscriber = this.#subscribers.get(id)
    if (subscriber) this.#end(subscriber, reason)
    return subscriber !== undefined
  }

  /** Whether a consumer would give its place to a newcomer from this address, when all places are taken. */
  hasRoomFor(remoteAddress: string): boolean {
    return this.#places.givingWayTo(this.#networkOf(remoteAddress)) !== undefined
  }

  /** Cuts off the newest consumer of the network that has most, if that is more than the newcomer's network will have. */
  makeRoomFor(remoteAddress: string): void {
    const subscriber = this.#places.givingWayTo(this.#networkOf(remoteAddress))
    if (!subscriber) return
    this.#places.delete(subscriber)
    const message = 'All places are taken, most of them from your address'
    this.#end(subscriber, new CloseReason(1013, 'TooManyConsumers', message))
    subscriber.connection.socket.destroy()
  }

  /** Ends every consumer with the cursor to resume from, and waits until they are gone, at most `closeMsMax`. */
  async close(reason: { error: string; message: string } = serviceRestart): Promise<void> {
    this.#isClosing = true
    this.#watch.close()
    this.#flushDirty()
    const gone = Array.from(this.#subscribers.values(), async (subscriber) => {
      const { socket } = subscriber.connection
      const closed = new Promise((resolve) => socket.once('close', resolve))
      this.#endForRestart(subscriber, reason)
      if (!socket.destroyed) await closed
    })
    const late = Promise.withResolvers<void>()
    using _ = this.#clock.after(closeMsMax, late.resolve)
    await Promise.race([Promise.all(gone), late.promise])
    for (const server of Object.values(this.#servers)) server.close()
  }

  #add(connection: Connection, group: FanoutGroup, afterSeq: number): Subscriber {
    const subscriber = new Subscriber(this.#nextId++, connection, group, { afterSeq, clock: this.#clock })
    this.#subscribers.set(subscriber.id, subscriber)
    this.#places.add(this.#networkOf(connection.remoteAddress), subscriber)
    const { webSocket } = connection
    for (const event of ['pong', 'ping', 'message'])
      webSocket.on(event, () => (subscriber.isAnswering = true))
    const isPush = connection.style === 'push'
    if (isPush && this.#options.clientMessages === 'refuse') {
      webSocket.on('message', () =>
        this.#end(subscriber, new CloseReason(1008, 'InvalidRequest', noMessages)),
      )
    }
    connection.feed.onTooMany = () => {
      const message = isPush ? noMessages : 'More messages than this stream takes'
      this.#end(subscriber, new CloseReason(1008, 'TooManyMessages', message))
      this.#cutOffAbuser(connection)
    }
    webSocket.on('close', () => {
      this.#subscribers.delete(subscriber.id)
      this.#places.delete(subscriber)
    })
    if (this.#isClosing) this.#endForRestart(subscriber, serviceRestart)
    return subscriber
  }

  /** Counts the bytes that are held of messages which have not arrived whole. */
  #countTexts(connection: Connection): void {
    const { webSocket } = connection
    const isWhole = (data: Buffer): void =>
      this.#arrivingTexts.lessChunk(connection, data.length + maskedHeadBytes)
    webSocket.on('ping', isWhole)
    webSocket.on('pong', isWhole)
    webSocket.on('message', () => this.#arrivingTexts.arrived(connection, connection.feed.keptBytes))
    for (const event of ['close', 'error']) webSocket.on(event, () => this.#arrivingTexts.forget(connection))
  }

  /** Reads nothing more of a consumer. */
  #cutOffAbuser(connection: Connection): void {
    connection.webSocket.pause()
    this.#cutOff(connection)
  }

  /** The consumer has a second to read why, unless a large message of it would be held for that time. */
  #cutOff(connection: Connection): void {
    const isLarge = this.#arrivingTexts.bytesOf(connection) > abuseGrace.heldBytesMax
    cutOffAfter(isLarge ? 0 : abuseGrace.ms, connection.socket, this.#clock)
  }

  #endForRestart(subscriber: Subscriber, { error, message }: { error: string; message: string }): void {
    this.#end(subscriber, new CloseReason(1012, error, message))
  }

  /**
   * Notes that something became visible, which `publish` gives to the groups that want it. `publish` is called once for
   * everything since its last call, before the next flush or before a reader joins: for many messages together it costs less
   * to find out who wants what, because thousands of groups do not fit into the processor's cache.
   */
  publishLater(publish: () => void): void {
    this.#publishRest = publish
    this.#scheduleFlush()
  }

  #takeRest(): void {
    const publish = this.#publishRest
    this.#publishRest = undefined
    publish?.()
  }

  /** With few readers at once; with many, at most every so many milliseconds, all groups together. */
  #scheduleFlush(): void {
    if (this.#flushTimer || this.#isFlushing) return
    const wait = this.#lastFlushMs + this.#flushInterval() - this.#clock.elapsedMs()
    if (wait <= 0) this.#flushDirty()
    else this.#flushTimer = this.#clock.after(wait, () => this.#flushDirty())
  }

  #flushInterval(): number {
    if (this.#live <= readersWithoutDelay) return 0
    return Math.min(this.#options.flushMsMax ?? 50, this.#live * flushMsPerReader)
  }

  #flushDirty(): void {
    this.#flushTimer?.[Symbol.dispose]()
    this.#flushTimer = undefined
    this.#lastFlushMs = this.#clock.elapsedMs()
    this.#isFlushing = true
    try {
      this.#takeRest()
      for (const group of this.#dirty) {
        this.#dirty.delete(group)
        group.flush()
      }
    } finally {
      this.#isFlushing = false
    }
  }

  #readBytesMax(): number {
    const behind = Math.max(1, this.#subscribers.size - this.#live)
    const { catchUpBytesMax = 32 * 1024 * 1024, readBytesMax = readBytes.max } = this.#options
    return Math.max(readBytes.min, Math.min(readBytesMax, catchUpBytesMax / behind))
  }

  #end(subscriber: Subscriber, cause: unknown): void {
    if (subscriber.state === 'closed') return
    const isFault = !(cause instanceof CloseReason)
    if (isFault) this.#options.onFault?.(cause)
    // Flush first, because the cursor that the consumer is told covers what is pending.
    if (subscriber.state === 'live') subscriber.group.flush()
    const info = subscriber.info(subscriber.group.headSeq)
    const reason = withPlace(isFault ? logFault : cause, subscriber.connection, info)
    const frame =
      subscriber.group.source.errorFrame?.(reason.error, reason.message) ??
      this.#errorFrame(subscriber.connection, reason)
    subscriber.group.end(subscriber, reason, frame)
    this.#options.onEnded?.(info, reason)
  }

  #errorFrame({ webSocket }: Connection, { error, message }: CloseReason): Uint8Array {
    return this.#options.errorFrame(error, message, webSocket.protocol)
  }
}

/** Answers the last ping of a turn, as the protocol allows, unless the consumer does not read: answers do not pile up. */
function answerPings(webSocket: WebSocket, socket: Socket): void {
  let latest: Buffer | undefined
  webSocket.on('ping', (data) => {
    const isScheduled = latest !== undefined
    latest = data
    if (isScheduled) return
    setImmediate(() => {
      if (!socket.writableNeedDrain) webSocket.pong(latest)
      latest = undefined
    })
  })
}

/** Adds to a reason how far behind the consumer was, and its cursor. A dialogue has cursors of another kind. */
function withPlace(
  reason: CloseReason,
  { style }: Connection,
  { lag, position }: SubscriberInfo,
): CloseReason {
  if (style === 'dialogue') return reason
  const message = `${reason.message}; ${lag} events behind; resume with cursor=${position}`
  return new CloseReason(reason.code, reason.error, message)
}

const noMessages = 'This stream takes no messages'
const logFault = new CloseReason(1011, 'InternalError', 'The event log could not be read')
const serviceRestart = { error: 'ServiceRestart', message: 'The service restarts' }
