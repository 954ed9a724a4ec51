/** One WebSocket to a PDS or relay, from dialling to its end, within bounds whatever the other side does. */
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { FetchError } from '@tributary/identity'
import { limits } from '@tributary/protocol'
import type { Turns } from '@tributary/rates'
import {
  readMessage,
  type ErrorMessage,
  type InfoMessage,
  type Message,
  type UnreadableMessage,
} from '@tributary/repo-verify'
import { WebSocket, type ClientOptions } from 'ws'
import { answerPings } from './answer-pings.ts'
import { PacedFeed } from './paced-feed.ts'

/**
 * What there is to conclude from an end: a message over the protocol's limit, a source that numbers its events from
 * the start again, a relay where a PDS was expected, an address that must not be dialled, a flood of frames that carry
 * no event.
 */
export type EndingCause = 'oversize' | 'renumbered' | 'relay-loop' | 'address-refused' | 'flood'

/** How a connection ended. */
export interface Ending {
  /** In words. */
  reason: string
  cause?: EndingCause
}

/** What is not an event: `#info`, or an error, after which the connection ends. */
export type Notice = InfoMessage | ErrorMessage

/** Any other message, one that cannot be read included. */
export type EventMessage = Exclude<Message, Notice> | UnreadableMessage

export interface SubscriptionTimes {
  /** For everything from the first packet to the upgraded connection. */
  handshakeMsMax: number
  pingMs: number
  /** Without a byte, answers to pings included. */
  silentMsMax: number
  /** A message that is under way for longer is not meant to end. */
  messageMsMax: number
  /** How long the other side may take to close the connection after it said that it would. */
  closingMsMax: number
}

export interface SubscriptionOptions {
  /** The source, `ws:` or `wss:`, without a path. */
  url: string
  /** The position to read from. Undefined: from now on. */
  cursor: number | undefined
  userAgent: string
  /** How to reach the host. Throws FetchError for what must not be dialled. */
  connectOptions?: (url: string) => ClientOptions
  /** Whether the source may be a relay. */
  mayBeRelay: boolean
  /** Turns that all connections of the process share. */
  turns: Turns
  /** Default: `subscriptionTimes`. */
  times?: Partial<SubscriptionTimes>
  /** Milliseconds since some moment, by which silence is told. Default: a clock that nobody can set. */
  nowMs?: () => number
  onOpen: () => void
  /** One message of `size` bytes, which may be part of a larger buffer. Not called after `end`. */
  onEvent: (message: EventMessage, size: number) => void
  onNotice: (notice: Notice) => void
  /**
   * Told of what was thrown while a message was read or handed over, which costs that message alone. What it throws ends
   * the process.
   */
  onDefect: (error: unknown, message: Buffer) => void
  /** Told of all frames that were read, so that they can be taken from an allowance. */
  onFrames?: (frames: number) => void
}

const subscriptionTimes: SubscriptionTimes = {
  handshakeMsMax: 10_000,
  pingMs: 30_000,
  silentMsMax: 90_000,
  messageMsMax: 120_000,
  closingMsMax: 5000,
}
/** Frames without an event that a source may send between two of our pings. More are a flood. */
const idleFramesMax = 1000
/** Fragments of one message. Servers that write in buffers send 1,024 bytes in each. */
const fragmentsMax = 10_000
/** Parts in which one frame may arrive, which is kept in a list until it is whole. */
const chunksPerFrameMax = 10_000
/** Answers of HTTP before the final one. */
const informationMax = 8
/** Bytes that Node reads of a socket at once, at most. `ws` makes a message that is larger in memory of its own. */
const socketReadBytesMax = 64 * 1024

export class Subscription {
  /** Resolves when the connection is over, never rejects. */
  readonly ended: Promise<Ending>
  readonly #options: SubscriptionOptions
  readonly #times: SubscriptionTimes
  readonly #webSocket: WebSocket
  #feed: PacedFeed | undefined
  #ending: Ending | undefined
  #isPaused = false
  #isPingUnsent = false
  readonly #nowMs: () => number
  #heardMs: number
  #bytesHeard = 0
  #messageMs: number
  #messagesBegun = 0
  /** Frames without an event up to the last ping. */
  #idleFramesBefore = 0
  #notices = 0
  #hasNumbered = false

  /** @throws FetchError when the source's address must not be dialled. */
  constructor(options: SubscriptionOptions) {
    this.#options = options
    this.#times = { ...subscriptionTimes, ...options.times }
    this.#nowMs = options.nowMs ?? (() => performance.now())
    this.#heardMs = this.#messageMs = this.#nowMs()
    const { handshakeMsMax, pingMs } = this.#times
    this.#webSocket = this.#dial()
    const handshake = setTimeout(() => this.end({ reason: 'no handshake in time' }), handshakeMsMax).unref()
    const ping = setInterval(() => this.#ping(), pingMs).unref()
    this.#webSocket.on('open', () => clearTimeout(handshake))
    this.ended = new Promise((resolve) => {
      this.#webSocket.on('close', (code, reason) => {
        clearTimeout(handshake)
        clearInterval(ping)
        resolve(this.#ending ?? { reason: `closed with ${code} ${reason.toString().slice(0, 128)}`.trim() })
      })
    })
  }

  get isOpen(): boolean {
    return this.#webSocket.readyState === WebSocket.OPEN
  }

  /** Stops reading from the socket, which makes the other side wait, or reads again. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#heardMs = this.#messageMs = this.#nowMs()
    this.#feed?.setPaused(isPaused)
  }

  /** Ends the connection at once. The first ending given stays. */
  end(ending: Ending): void {
    this.#ending ??= ending
    this.#webSocket.terminate()
  }

  #dial(): WebSocket {
    const { url: host, cursor, connectOptions, userAgent } = this.#options
    const url = `${host}/xrpc/com.atproto.sync.subscribeRepos${cursor === undefined ? '' : `?cursor=${cursor}`}`
    const webSocket = new WebSocket(url, {
      ...connectOptions?.(url),
      handshakeTimeout: this.#times.handshakeMsMax,
      maxPayload: limits.messageBytes,
      maxFragments: fragmentsMax,
      maxBufferedChunks: chunksPerFrameMax,
      perMessageDeflate: false,
      autoPong: false,
      headers: { 'user-agent': userAgent },
      finishRequest: (request) => this.#finishRequest(request),
    })
    webSocket.on('upgrade', (response) => this.#onUpgrade(response))
    webSocket.on('unexpected-response', (request, { statusCode, headers }) => {
      request.destroy()
      const reason = `answered with status ${statusCode}`
      // This relay refuses itself with one.
      this.end({ reason, ...(this.#isLoop(headers) ? { cause: 'relay-loop' } : {}) })
    })
    webSocket.on('error', (error: Error & { code?: string }) => {
      const ending: Ending = { reason: error.message.slice(0, 256) }
      if (error instanceof FetchError) ending.cause = 'address-refused'
      else if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') ending.cause = 'oversize'
      this.end(ending)
    })
    // ws hands over a Buffer, as its binaryType says.
    webSocket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary))
    answerPings(webSocket)
    return webSocket
  }

  #finishRequest(request: ClientRequest): void {
    let count = 0
    request.on('information', () => {
      if (++count > informationMax) this.end({ reason: 'no end of provisional answers' })
    })
    request.end()
  }

  #onUpgrade({ headers, socket }: IncomingMessage): void {
    if (this.#isLoop(headers)) return this.end({ reason: 'a relay, not a PDS', cause: 'relay-loop' })
    // ws listens to the socket when it says that it is open, and nothing was read from it until then.
    this.#webSocket.on('open', () => {
      if (this.#ending) return
      const { turns, onOpen } = this.#options
      this.#feed = new PacedFeed(this.#webSocket, socket, {
        turns,
        onFrames: (frames) => this.#onFrames(frames),
      })
      this.#feed.setPaused(this.#isPaused)
      onOpen()
    })
  }

  /** Whether a relay answers where a PDS is expected. */
  #isLoop(headers: IncomingHttpHeaders): boolean {
    return headers['server']?.includes('atproto-relay') === true && !this.#options.mayBeRelay
  }

  #receive(data: Buffer, isBinary: boolean): void {
    // What was on its way when the connection was ended comes again on the next one.
    if (this.#ending) return
    if (!isBinary) return this.end({ reason: 'a text message' })
    try {
      this.#handOver(data)
    } catch (error) {
      this.#options.onDefect(error, data)
    }
  }

  #handOver(data: Buffer): void {
    const message = readMessage(data)
    if (message.ok && (message.kind === 'info' || message.kind === 'error')) this.#onNotice(message)
    else if (this.#isWanted(message)) this.#options.onEvent(message, data.length)
    if (!message.ok) freeOwnMemory(data)
  }

  /** Whether an event is to be handed on. The first one of a connection shows how the source numbers. */
  #isWanted(message: EventMessage): boolean {
    const { cursor = 0 } = this.#options
    if (this.#hasNumbered || cursor <= 0) return true
    const seq = message.ok ? message.upstreamSeq : undefined
    if (seq === undefined) return true
    this.#hasNumbered = true
    // The source sends none below the position that was asked for, so it numbers from its start again.
    if (seq < cursor) this.end({ reason: `events below our cursor ${cursor}`, cause: 'renumbered' })
    // Some relays begin with the event at the position, which we have.
    return seq > cursor
  }

  #onNotice(notice: Notice): void {
    this.#notices++
    this.#options.onNotice(notice)
    if (notice.kind === 'info') return
    const error = notice.error.slice(0, 64)
    const reason = `${error}: ${notice.message?.slice(0, 256) ?? ''}`
    this.end({ reason, ...(error === 'FutureCursor' ? { cause: 'renumbered' } : {}) })
  }

  #onFrames(frames: number): void {
    if (this.#webSocket.readyState === WebSocket.CLOSING)
      setTimeout(() => this.#webSocket.terminate(), this.#times.closingMsMax).unref()
    if (this.#ending || frames === 0) return
    const idleFrames = (this.#feed?.meter.idleFrames ?? 0) + this.#notices - this.#idleFramesBefore
    if (idleFrames > idleFramesMax)
      this.end({ reason: 'a flood of frames that carry no event', cause: 'flood' })
    else this.#options.onFrames?.(frames)
  }

  #ping(): void {
    const feed = this.#feed
    if (!feed || !this.isOpen) return
    const nowMs = this.#nowMs()
    const { messageMsMax, silentMsMax } = this.#times
    const { messages, isMidMessage, idleFrames } = feed.meter
    // Nothing is heard of a source that is not read.
    if (this.#isPaused || feed.bytesRead > this.#bytesHeard) this.#heardMs = nowMs
    if (this.#isPaused || !isMidMessage || messages > this.#messagesBegun) this.#messageMs = nowMs
    this.#bytesHeard = feed.bytesRead
    this.#messagesBegun = messages
    this.#idleFramesBefore = idleFrames + this.#notices
    if (nowMs - this.#heardMs > silentMsMax) return this.end({ reason: 'no answer to pings' })
    if (nowMs - this.#messageMs > messageMsMax) return this.end({ reason: 'a message that does not end' })
    // A ping that the other side did not take yet asks for its answer well enough.
    if (this.#isPingUnsent) return
    this.#isPingUnsent = true
    this.#webSocket.ping('', true, () => (this.#isPingUnsent = false))
  }
}

/**
 * Gives the memory of a message that nobody needs back at once, because garbage collection would let a hundred megabytes
 * of refused messages pile up first. Smaller messages share what was read of the socket.
 */
function freeOwnMemory({ buffer, length }: Buffer): void {
  if (length > socketReadBytesMax && buffer.byteLength === length && buffer instanceof ArrayBuffer)
    buffer.transfer(0)
}
