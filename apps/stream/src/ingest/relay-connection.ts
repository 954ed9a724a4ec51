import { setTimeout as delay } from 'node:timers/promises'
import { Turns } from '@tributary/rates'
import {
  backoffMs,
  Subscription,
  type BackoffBounds,
  type Ending,
  type EventMessage,
  type Notice,
} from '@tributary/subscription'

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
  /** One message of `size` bytes, which may be part of a larger buffer. */
  onEvent: (message: EventMessage, size: number) => void
  /** Called with each notice, but with `OutdatedCursor` once per connection, because it has every PDS read again. */
  onNotice: (notice: Notice) => void
  /** What was thrown while a message was read or handed over. What this throws ends the process. */
  onDefect: (error: unknown, message: Buffer) => void
  /** The relay's numbers lie below the position that was asked for. The connection has ended. */
  onRenumbered: () => void
  onState: (state: ConnectionState) => void
  /** Bounds of the wait between two attempts. */
  reconnectMs: BackoffBounds
  /** Milliseconds between pings. Without anything from the relay for two of them, the connection is given up. */
  pingMs: number
}

const healthyAfterMs = 60_000

/**
 * Keeps a connection to a relay's firehose, and dials again without end. The wait between attempts grows, and is short
 * again once a connection has proven itself. Silence is normal; a connection is dead when it answers no ping.
 */
export class RelayConnection {
  readonly #options: RelayConnectionOptions
  readonly #turns = new Turns()
  #subscription: Subscription | undefined
  #isPaused = false
  #awaySinceMs: number = Date.now()
  #oversizeAt: number | undefined

  constructor(options: RelayConnectionOptions) {
    this.#options = options
  }

  /** Connects, and reconnects until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { cursor: cursorNow, onRenumbered, onState } = this.#options
    while (!signal.aborted) {
      const cursor = cursorNow()
      const startedMs = Date.now()
      onState({ is: 'connecting' })
      const ending = await this.#connectOnce(cursor, signal)
      if (signal.aborted) break
      if (ending.cause === 'renumbered') onRenumbered()
      if (ending.cause === undefined && Date.now() - startedMs > healthyAfterMs) this.markHealthy()
      await this.#wait(cursor, ending, signal)
    }
    onState({ is: 'stopped' })
  }

  /** An event of this connection was good: the waits are short again. */
  markHealthy(): void {
    this.#awaySinceMs = Date.now()
  }

  /** Stops reading from the socket, which makes the relay wait. */
  pause(): void {
    this.#setPaused(true)
  }

  resume(): void {
    this.#setPaused(false)
  }

  #setPaused(isPaused: boolean): void {
    if (this.#isPaused === isPaused) return
    this.#isPaused = isPaused
    this.#subscription?.setPaused(isPaused)
  }

  async #wait(cursor: number, { cause, reason: error }: Ending, signal: AbortSignal): Promise<void> {
    const nowMs = Date.now()
    const waitMs = backoffMs(nowMs - this.#awaySinceMs, this.#options.reconnectMs)
    const untilMs = nowMs + waitMs
    const isStuck = cause === 'oversize' && this.#oversizeAt === cursor
    this.#oversizeAt = cause === 'oversize' ? cursor : undefined
    if (isStuck) this.#options.onState({ is: 'stuck', cursor, untilMs, error })
    else this.#options.onState({ is: 'waiting', untilMs, error })
    // Aborting the wait is how the loop is stopped.
    await delay(waitMs, undefined, { signal }).catch(() => undefined)
  }

  /** Resolves when the connection has ended, with how it did. */
  async #connectOnce(cursor: number, signal: AbortSignal): Promise<Ending> {
    const { url, onEvent, onNotice, onDefect, onState, pingMs } = this.#options
    let isOutdated = false
    const subscription = new Subscription({
      url,
      cursor,
      userAgent: 'tributary-stream',
      mayBeRelay: true,
      turns: this.#turns,
      times: { pingMs, silentMsMax: 2 * pingMs },
      onOpen: () => onState({ is: 'connected', sinceMs: Date.now() }),
      onEvent,
      onNotice: (notice) => {
        const saysOutdated = notice.kind === 'info' && notice.name === 'OutdatedCursor'
        if (!saysOutdated || !isOutdated) onNotice(notice)
        isOutdated ||= saysOutdated
      },
      onDefect,
    })
    subscription.setPaused(this.#isPaused)
    this.#subscription = subscription
    const abort = (): void => subscription.end({ reason: 'not wanted any more' })
    signal.addEventListener('abort', abort)
    const ending = await subscription.ended
    signal.removeEventListener('abort', abort)
    this.#subscription = undefined
    return ending
  }
}
