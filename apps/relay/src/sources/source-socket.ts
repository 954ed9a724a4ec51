/** One WebSocket to a source, from dialling to its end, within bounds whatever the other side does. */
import type { IncomingHttpHeaders } from 'node:http'
import { FetchError } from '@tributary/identity'
import { limits } from '@tributary/protocol'
import { readMessage } from '@tributary/repo-verify'
import { WebSocket, type ClientOptions } from 'ws'
import type { Pipeline } from '../pipeline/pipeline.ts'
import { livePosition, type Source } from './source.ts'

/** How a connection ended. */
export interface Ending {
  /** In words. */
  reason: string
  /**
   * A message over the protocol's limit, a source that numbers anew, a relay where a PDS was expected, or an address
   * that must not be dialled.
   */
  cause?: 'oversize' | 'renumbered' | 'relay-loop' | 'address-refused'
}

export interface SocketOptions {
  pipeline: Pick<Pipeline, 'receive'>
  connectOptions: (url: string) => ClientOptions
  userAgent: string
  onOpen: () => void
  /** After each message that was handed on. */
  onMessage: () => void
  /** Default: `socketTimes`. */
  times?: SocketTimes
}

export interface SocketTimes {
  /** For everything from the first packet to the upgraded connection. */
  handshakeMsMax: number
  pingMs: number
  /** Without an answer to pings, or anything else. */
  silentMsMax: number
  /** A message under way for so long, of which bytes keep coming, is not meant to end. */
  messageMsMax: number
}

const socketTimes: SocketTimes = {
  handshakeMsMax: 10_000,
  pingMs: 30_000,
  silentMsMax: 90_000,
  messageMsMax: 120_000,
}
/** What answers to our pings may have brought in that time. */
const pongBytesMax = 256
/** Answers to the other side's pings that it may leave untaken. */
const unsentBytesMax = 64 * 1024
/** Messages up to this are looked at for error frames and `#info` whatever their head is. */
const glanceBytesMax = 1024
/** Longer messages are neither. */
const noticeBytesMax = 64 * 1024
/** What the head of such a message has in it, near its begin: `op` of -1, or the type. */
const noticeMarks = [Buffer.from([0x62, 0x6f, 0x70, 0x20]), Buffer.from('#info')]
const headBytesMax = 32
const sampleMs = 1000

export class SourceSocket {
  /** Resolves when the connection is over, never rejects. */
  readonly ended: Promise<Ending>
  readonly #source: Source
  readonly #options: SocketOptions
  readonly #times: SocketTimes
  readonly #socket: WebSocket
  readonly #dialledCursor: number
  #ending: Ending | undefined
  #heardMs = Date.now()
  #lastSeq = 0
  #lastMessageMs = Date.now()
  #bytesAtMessage = 0
  #sampledMs = 0
  #isPaused = false

  /** @throws FetchError when the source's address must not be dialled. */
  constructor(source: Source, options: SocketOptions) {
    this.#source = source
    this.#options = options
    this.#times = options.times ?? socketTimes
    const { handshakeMsMax, pingMs } = this.#times
    this.#dialledCursor = source.receivedSeq
    const query = this.#dialledCursor === livePosition ? '' : `?cursor=${this.#dialledCursor}`
    this.#socket = this.#dial(`${source.url}/xrpc/com.atproto.sync.subscribeRepos${query}`)
    const handshake = setTimeout(() => this.end({ reason: 'no handshake in time' }), handshakeMsMax).unref()
    const ping = setInterval(() => this.#ping(), pingMs).unref()
    this.#socket.on('open', () => {
      clearTimeout(handshake)
      if (!this.#ending) options.onOpen()
    })
    this.ended = new Promise((resolve) => {
      this.#socket.on('close', (code, reason) => {
        clearTimeout(handshake)
        clearInterval(ping)
        resolve(this.#ending ?? { reason: `closed with ${code} ${reason.toString().slice(0, 128)}`.trim() })
      })
    })
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#heardMs = Date.now()
    if (!this.isOpen) return
    if (isPaused) this.#socket.pause()
    else this.#socket.resume()
  }

  /** Ends the connection at once. The first reason given stays. */
  end(ending: Ending): void {
    this.#ending ??= ending
    this.#socket.terminate()
  }

  #dial(url: string): WebSocket {
    const { connectOptions, userAgent } = this.#options
    const socket = new WebSocket(url, {
      ...connectOptions(url),
      handshakeTimeout: this.#times.handshakeMsMax,
      maxPayload: limits.messageBytes,
      perMessageDeflate: false,
      autoPong: false,
      headers: { 'user-agent': userAgent },
    })
    socket.on('upgrade', ({ headers }) => {
      if (this.#isLoop(headers)) this.end({ reason: 'a relay, not a PDS', cause: 'relay-loop' })
    })
    socket.on('unexpected-response', (request, { statusCode, headers }) => {
      request.destroy()
      const reason = `answered with status ${statusCode}`
      // This relay refuses itself with one.
      this.end({ reason, ...(this.#isLoop(headers) ? { cause: 'relay-loop' } : {}) })
    })
    socket.on('error', (error: Error & { code?: string }) => {
      const ending: Ending = { reason: error.message.slice(0, 256) }
      if (error instanceof FetchError) ending.cause = 'address-refused'
      else if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') ending.cause = 'oversize'
      this.#ending ??= ending
    })
    socket.on('pong', () => (this.#heardMs = Date.now()))
    socket.on('ping', (data) => {
      this.#heardMs = Date.now()
      if (socket.bufferedAmount > unsentBytesMax) this.end({ reason: 'pings whose answers are not taken' })
      else socket.pong(data)
    })
    // ws hands over a Buffer, as its binaryType says.
    socket.on('message', (data: Buffer, isBinary: boolean) => this.#receive(data, isBinary))
    return socket
  }

  /** Whether a relay answers where a PDS is expected. */
  #isLoop(headers: IncomingHttpHeaders): boolean {
    return headers['server']?.includes('atproto-relay') === true && this.#source.policy.kind !== 'relay'
  }

  #receive(data: Buffer, isBinary: boolean): void {
    // What was on its way when the connection was ended comes again on the next one.
    if (this.#ending) return
    const source = this.#source
    const nowMs = Date.now()
    this.#heardMs = this.#lastMessageMs = nowMs
    this.#bytesAtMessage = this.#bytesRead
    if (!isBinary) return this.end({ reason: 'a text message' })
    if (mayBeNotice(data) && this.#isNotice(data)) return
    if (this.#lastSeq === 0 && this.#dialledCursor > 0) {
      const first = readMessage(data)
      const seq = first.ok && 'upstreamSeq' in first ? (first.upstreamSeq ?? Infinity) : Infinity
      // None below the position that was asked for may come: the source numbers anew.
      if (seq < this.#dialledCursor)
        return this.end({ reason: `events below our cursor ${this.#dialledCursor}`, cause: 'renumbered' })
      // Some relays begin with the event at the position, which we have.
      if (seq === this.#dialledCursor) return void (this.#lastSeq = seq)
    }
    source.eventsReceived++
    source.recent.note(nowMs)
    source.bytesReceived += data.length
    source.lastEventAtMs = nowMs
    if (nowMs - this.#sampledMs > sampleMs) this.#sample(data, nowMs)
    const seq = this.#options.pipeline.receive(source, data, this.#lastSeq)
    if (this.#lastSeq > 0 && seq > this.#lastSeq + 1) source.gaps++
    this.#lastSeq = seq
    this.#options.onMessage()
  }

  /** Takes error frames, which end the connection, and `#info`. */
  #isNotice(data: Buffer): boolean {
    const notice = readMessage(data)
    if (!notice.ok || (notice.kind !== 'info' && notice.kind !== 'error')) return false
    if (notice.kind === 'info') {
      if (notice.name === 'OutdatedCursor' && this.#dialledCursor > 0) this.#source.losses++
      return true
    }
    const error = notice.error.slice(0, 64)
    const message = (notice.message ?? '').slice(0, 256)
    const isFuture = error === 'FutureCursor'
    this.end({ reason: `${error}: ${message}`, ...(isFuture ? { cause: 'renumbered' } : {}) })
    return true
  }

  #sample(data: Buffer, nowMs: number): void {
    this.#sampledMs = nowMs
    const message = readMessage(data)
    const atMs = message.ok && 'time' in message ? Date.parse(message.time) : NaN
    if (!Number.isNaN(atMs)) this.#source.eventAgeMs = Math.max(0, nowMs - atMs)
  }

  #ping(): void {
    const nowMs = Date.now()
    const { messageMsMax, silentMsMax } = this.#times
    if (this.#isPaused) {
      // Nothing is heard of a source that is not read.
      this.#heardMs = this.#lastMessageMs = nowMs
    } else if (nowMs - this.#heardMs > silentMsMax) {
      return this.end({ reason: 'no answer to pings' })
    } else if (
      nowMs - this.#lastMessageMs > messageMsMax &&
      this.#bytesRead - this.#bytesAtMessage > pongBytesMax
    ) {
      return this.end({ reason: 'a message that does not end' })
    } else if (nowMs - this.#lastMessageMs > messageMsMax) {
      this.#lastMessageMs = nowMs
      this.#bytesAtMessage = this.#bytesRead
    }
    if (this.isOpen) this.#socket.ping()
  }

  get #bytesRead(): number {
    // ws keeps its socket to itself, and only that knows what came of a message that has not ended.
    return (this.#socket as unknown as { _socket: { bytesRead: number } | null })._socket?.bytesRead ?? 0
  }
}

/** Says without decoding it whether a message is worth a look; most are long, and events. */
function mayBeNotice(data: Buffer): boolean {
  if (data.length <= glanceBytesMax) return true
  if (data.length > noticeBytesMax) return false
  const head = data.subarray(0, headBytesMax)
  return noticeMarks.some((mark) => head.includes(mark))
}
