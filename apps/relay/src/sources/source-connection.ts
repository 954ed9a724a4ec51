/**
 * Keeps one source connected for as long as it is wanted: dials with the position reached, hands every message to the
 * pipeline, and dials again for ever, after a wait that grows and is drawn at random. Silence is normal; what ends a
 * connection is a ping that stays unanswered.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeFrame, FrameError, limits } from '@tributary/protocol'
import { peekFrame } from '@tributary/repo-verify'
import type { Logger } from '@tributary/telemetry'
import { WebSocket, type ClientOptions } from 'ws'
import type { Pipeline } from '../pipeline/pipeline.ts'
import type { OnRefused } from '../refusals.ts'
import type { Source } from './source.ts'

export interface ConnectionOptions {
  pipeline: Pipeline
  logger: Logger
  /** How to reach hosts safely: looks addresses up and refuses private ones. */
  connectOptions: (url: string) => ClientOptions
  userAgent: string
  onRefused: OnRefused
  /** The source's epoch changed, which has to be stored before the first event of the new one. */
  onEpoch: (source: Source) => void
}

const handshakeTimeoutMs = 5000
const pingMs = 30_000
const silentMsMax = 90_000
const backoffMs = { first: 1000, max: 300_000 }
const healthyAfterMs = 60_000
const unreachableAfter = 15
const epochMsMin = 3_600_000

/** How a connection ended. */
interface Ending {
  reason: string
  /** A message was over the protocol's limit. */
  isOversize?: boolean
  isFutureCursor?: boolean
}

export class SourceConnection {
  readonly source: Source
  readonly #options: ConnectionOptions
  readonly #stop = new AbortController()
  #wake = new AbortController()
  #socket: WebSocket | undefined
  #failures = 0
  #isPaused = false
  /** Where a message over the limit was met, so that meeting it again is told apart. */
  #oversizeAt: number | undefined
  readonly #done: Promise<void>

  constructor(source: Source, options: ConnectionOptions) {
    this.source = source
    this.#options = options
    this.#done = this.#run()
  }

  /** Dials now instead of after the wait, and starts the waits from the shortest again. */
  reconnect(): void {
    this.#failures = 0
    this.#wake.abort()
  }

  /** Stops reading from the socket, so that the host waits, or reads again. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    if (this.#socket?.readyState !== WebSocket.OPEN) return
    if (isPaused) this.#socket.pause()
    else this.#socket.resume()
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#wake.abort()
    this.#socket?.terminate()
    await this.#done
  }

  async #run(): Promise<void> {
    const { source } = this
    const { logger } = this.#options
    while (!this.#stop.signal.aborted) {
      source.state =
        this.#failures >= unreachableAfter ? 'unreachable' : source.state === 'stuck' ? 'stuck' : 'connecting'
      const startedMs = Date.now()
      const eventsBefore = source.eventsReceived
      const ending = await this.#connectOnce()
      if (this.#stop.signal.aborted) return
      source.lastError = ending.reason
      const wasHealthy = source.eventsReceived > eventsBefore || Date.now() - startedMs > healthyAfterMs
      this.#failures = wasHealthy ? 0 : this.#failures + 1
      if (ending.isOversize) this.#noteOversize()
      if (ending.isFutureCursor) this.#beginEpoch()
      const waitMs =
        Math.random() * Math.min(backoffMs.max, backoffMs.first * 2 ** Math.min(this.#failures, 20))
      logger.warn(
        { host: source.host, reason: ending.reason, failures: this.#failures, waitMs: Math.round(waitMs) },
        'source disconnected',
      )
      this.#wake = new AbortController()
      if (!ending.isFutureCursor)
        await sleep(waitMs, undefined, { signal: this.#wake.signal, ref: false }).catch(() => undefined)
    }
  }

  /** One connection, from dialling to its end. */
  async #connectOnce(): Promise<Ending> {
    const { source } = this
    const { connectOptions, userAgent } = this.#options
    const url = `${source.url}/xrpc/com.atproto.sync.subscribeRepos?cursor=${source.receivedSeq}`
    const socket = new WebSocket(url, {
      ...connectOptions(url),
      handshakeTimeout: handshakeTimeoutMs,
      maxPayload: limits.messageBytes,
      perMessageDeflate: false,
      headers: { 'user-agent': userAgent },
    })
    this.#socket = socket
    let ending: Ending | undefined
    let heardMs = Date.now()
    let lastSeq = 0
    const ping = setInterval(() => {
      if (Date.now() - heardMs > silentMsMax && !this.#isPaused) {
        ending ??= { reason: 'no answer to pings' }
        socket.terminate()
      } else if (socket.readyState === WebSocket.OPEN) socket.ping()
    }, pingMs).unref()
    socket.on('pong', () => (heardMs = Date.now()))
    socket.on('open', () => {
      source.state = 'connected'
      this.#options.logger.info({ host: source.host, cursor: source.receivedSeq }, 'source connected')
      if (this.#isPaused) socket.pause()
    })
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      heardMs = Date.now()
      if (!isBinary) {
        ending ??= { reason: 'a text message' }
        socket.terminate()
        return
      }
      const error = errorOf(data)
      if (error) {
        ending ??= {
          reason: `${error.name}: ${error.message}`,
          isFutureCursor: error.name === 'FutureCursor',
        }
        return
      }
      source.eventsReceived++
      lastSeq = this.#options.pipeline.receive(source, data, lastSeq)
    })
    return await new Promise<Ending>((resolve) => {
      socket.on('error', (error: Error & { code?: string }) => {
        ending ??= { reason: error.message, isOversize: error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH' }
      })
      socket.on('close', (code, reason) => {
        clearInterval(ping)
        this.#socket = undefined
        resolve(ending ?? { reason: `closed with ${code} ${reason.toString()}`.trim() })
      })
    })
  }

  #noteOversize(): void {
    const { source } = this
    this.#options.onRefused(
      source,
      'oversize',
      `a message of over ${limits.messageBytes} bytes behind seq ${source.receivedSeq}`,
      { upstreamSeq: source.receivedSeq },
    )
    if (this.#oversizeAt === source.receivedSeq) source.state = 'stuck'
    this.#oversizeAt = source.receivedSeq
  }

  /** The source no longer knows our position: its numbering began anew. At most once an hour. */
  #beginEpoch(): void {
    const { source } = this
    const { logger, onEpoch } = this.#options
    if (Date.now() - source.epochAtMs < epochMsMin) {
      logger.error(
        { host: source.host, cursor: source.cursor },
        'source refuses our position again within the hour; trying later',
      )
      return
    }
    source.beginEpoch(Date.now())
    onEpoch(source)
    logger.error(
      { host: source.host, epoch: source.epoch },
      'source numbers its events anew: reading it from its oldest event',
    )
  }
}

/** The error that a message carries, if it is an error frame. */
function errorOf(data: Buffer): { name: string; message: string } | undefined {
  if (peekFrame(data)?.op !== -1) return undefined
  try {
    const { error, message } = decodeFrame(data).body
    return {
      name: String(error).slice(0, 64),
      message: typeof message === 'string' ? message.slice(0, 256) : '',
    }
  } catch (cause) {
    if (cause instanceof FrameError) return undefined
    throw cause
  }
}
