import { setTimeout as delay } from 'node:timers/promises'
import { limits } from '@tributary/protocol'
import { WebSocket } from 'ws'

/** What an operator sees of the connection to the relay. */
export type ConnectionState =
  | { is: 'connecting' }
  | { is: 'connected'; sinceMs: number }
  /** Between two attempts. */
  | { is: 'waiting'; untilMs: number; error: string }
  /** The relay sends a message that is too large at the same position again and again. Retried all the same. */
  | { is: 'stuck'; cursor: number; untilMs: number; error: string }
  | { is: 'stopped' }

export interface RelayConnectionOptions {
  /** The relay, `ws:` or `wss:`, without a path. */
  url: string
  /** The position to connect at. Asked before every attempt. */
  cursor: () => number
  /** One WebSocket message. The bytes may be part of a larger buffer. */
  onFrame: (frame: Buffer) => void
  onState: (state: ConnectionState) => void
  /** Longest wait before the second attempt, and ever, in milliseconds. The wait is a random part of it. */
  reconnectMs: { first: number; max: number }
  /** Milliseconds between pings. Without anything from the relay for two of them, the connection is given up. */
  pingMs: number
}

const handshakeMsMax = 10_000
const healthyAfterMs = 60_000

/**
 * One connection to a relay's firehose, renewed for ever. The wait between attempts doubles, with jitter, and begins
 * anew once a connection has proven itself. Silence is normal; a connection is dead when it answers no ping.
 */
export class RelayConnection {
  readonly #options: RelayConnectionOptions
  #socket: WebSocket | undefined
  #isPaused = false
  #failures = 0
  #oversizeAt: number | undefined

  constructor(options: RelayConnectionOptions) {
    this.#options = options
  }

  /** Connects, and reconnects until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const cursor = this.#options.cursor()
      this.#options.onState({ is: 'connecting' })
      const error = await this.#connectOnce(cursor, signal)
      if (signal.aborted) break
      await this.#wait(cursor, error, signal)
    }
    this.#options.onState({ is: 'stopped' })
  }

  /** An event of this connection was good: the next failure is the first one again. */
  markHealthy(): void {
    this.#failures = 0
  }

  /** Gives the connection up, with all that it still sends; the next one begins at the position of then, after the usual wait. */
  reconnect(): void {
    const socket = this.#socket
    this.#socket = undefined
    socket?.terminate()
  }

  /** Stops reading from the socket, which makes the relay wait. */
  pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    this.#socket?.pause()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    this.#socket?.resume()
  }

  async #wait(cursor: number, error: ConnectionError, signal: AbortSignal): Promise<void> {
    const { first, max } = this.#options.reconnectMs
    const longest = Math.min(max, first * 2 ** Math.min(this.#failures, 20))
    this.#failures++
    const waitMs = Math.random() * longest
    const untilMs = Date.now() + waitMs
    const isStuck = error.isOversize && this.#oversizeAt === cursor
    this.#oversizeAt = error.isOversize ? cursor : undefined
    if (isStuck) this.#options.onState({ is: 'stuck', cursor, untilMs, error: error.message })
    else this.#options.onState({ is: 'waiting', untilMs, error: error.message })
    // Aborting the wait is how the loop is stopped.
    await delay(waitMs, undefined, { signal }).catch(() => undefined)
  }

  /** Resolves when the connection has ended, with the reason. */
  #connectOnce(cursor: number, signal: AbortSignal): Promise<ConnectionError> {
    const { url, onFrame, onState, pingMs } = this.#options
    const { promise, resolve } = Promise.withResolvers<ConnectionError>()
    const socket = new WebSocket(`${url}/xrpc/com.atproto.sync.subscribeRepos?cursor=${cursor}`, {
      maxPayload: limits.messageBytes,
      perMessageDeflate: false,
      handshakeTimeout: handshakeMsMax,
      headers: { 'User-Agent': 'tributary-stream' },
    })
    this.#socket = socket
    let ended: ConnectionError = { message: 'the relay closed the connection', isOversize: false }
    let heardMs = Date.now()
    const openedMs = heardMs
    const heard = (): void => {
      heardMs = Date.now()
    }
    const pings = setInterval(() => {
      // A paused socket hears nothing, not even pongs.
      if (this.#isPaused) heard()
      if (Date.now() - heardMs > 2 * pingMs) socket.terminate()
      else if (socket.readyState === WebSocket.OPEN) socket.ping()
    }, pingMs)
    const abort = (): void => socket.terminate()
    signal.addEventListener('abort', abort)
    socket.on('open', () => {
      onState({ is: 'connected', sinceMs: Date.now() })
      if (this.#isPaused) socket.pause()
    })
    socket.on('pong', heard)
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      heard()
      // Closing leaves what was received already to be read.
      if (this.#socket !== socket) return
      if (isBinary) onFrame(data)
      else {
        ended = { message: 'the relay sent a text message', isOversize: false }
        socket.close(1003)
      }
    })
    socket.on('error', (error: Error & { code?: string }) => {
      ended = { message: error.message, isOversize: error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH' }
    })
    socket.on('close', (code: number, reason: Buffer) => {
      clearInterval(pings)
      signal.removeEventListener('abort', abort)
      this.#socket = undefined
      if (Date.now() - openedMs > healthyAfterMs) this.#failures = 0
      if (reason.length > 0)
        ended = { ...ended, message: `the relay closed with ${code} ${reason.toString()}` }
      resolve(ended)
    })
    return promise
  }
}

interface ConnectionError {
  message: string
  isOversize: boolean
}
