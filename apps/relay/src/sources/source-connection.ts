/**
 * Keeps one source connected for as long as it is wanted: dials with the position reached, hands every message to the
 * pipeline, and dials again without an end, after a wait that grows and is drawn at random. Silence is normal; what ends a
 * connection is a ping that stays unanswered, or a message that never ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { FetchError } from '@tributary/identity'
import { limits } from '@tributary/protocol'
import type { Turns } from '@tributary/rates'
import { backoffMs, Subscription, type Ending } from '@tributary/subscription'
import type { Logger } from '@tributary/telemetry'
import type { ClientOptions } from 'ws'
import type { OnRefused } from '../refusals.ts'
import { dialBounds } from './backoff.ts'
import type { DialPace } from './dial-pace.ts'
import { ReadGate, type Allowance, type PauseReason } from './read-gate.ts'
import { SourceReader, type EventReceiver } from './source-reader.ts'
import { livePosition, type Source } from './source.ts'

export interface ConnectionOptions {
  pipeline: EventReceiver
  logger: Logger
  /** How to reach hosts safely: looks addresses up and refuses private ones. Throws FetchError for what is never dialled. */
  connectOptions: (url: string) => ClientOptions
  userAgent: string
  onRefused: OnRefused
  /** What was thrown while a message was read or taken in. What this throws ends the process. */
  onDefect: (source: Source, error: unknown, message: Buffer) => void
  /** The source's epoch changed, which has to be stored before the first event of the new one. */
  onEpoch: (source: Source) => void
  onDisconnected: (source: Source, ending: Ending) => void
  /** Milliseconds since some moment before the start. Nobody can set it, and it never goes back. Default: the process's. */
  elapsedMs?: () => number
}

/** What the connections of all sources have in common. */
export interface SharedBySources {
  turns: Turns
  pace: DialPace
}

const healthyAfterMs = 60_000
const epochMsMin = 3_600_000
/** Messages that one which cannot be read counts as: refusing it takes as long, and an honest host sends none. */
const unreadableCost = 8
/** A private host that is not, or no longer, one of those that are allowed, or a name that leads to such an address. */
const addressNotAllowed = 'address not allowed'
/** A relay answers where a PDS is expected, or this relay itself. */
const relayLoop = 'relay-loop'

export class SourceConnection {
  readonly source: Source
  readonly #options: ConnectionOptions
  readonly #gate: ReadGate
  readonly #shared: SharedBySources
  readonly #stop = new AbortController()
  #wake = new AbortController()
  /** The next wait is left out. */
  #isHurried = false
  #socket: Subscription | undefined
  /** It came to a connection, which is not over. */
  #isOpen = false
  /** The connection there is was given up by us: how it ends says nothing of the position that the next one has. */
  #isGivenUp = false
  /** A date that jumps ahead, if only for a moment, must not have the source dialled a day later. */
  readonly #elapsedMs: () => number
  #awaySinceMs: number
  #loggedBefore: number
  /** Where a message over the limit was met, so that meeting it again is told apart. */
  #oversizeAt: number | undefined
  readonly #done: Promise<void>

  /** @param allowances what its reading costs: its own rates, and that of all sources. */
  constructor(
    source: Source,
    options: ConnectionOptions,
    { allowances, ...shared }: SharedBySources & { allowances: readonly Allowance[] },
  ) {
    this.source = source
    this.#options = options
    this.#loggedBefore = source.eventsLogged
    this.#elapsedMs = options.elapsedMs ?? (() => performance.now())
    this.#awaySinceMs = this.#elapsedMs()
    source.reading.expect()
    this.#shared = shared
    this.#gate = new ReadGate(allowances, (reason) => this.#onGate(reason))
    this.#done = this.#run()
  }

  /** Dials now instead of after the wait, and starts the waits from the shortest again. */
  reconnect(): void {
    this.#awaySinceMs = this.#elapsedMs()
    this.#isHurried = true
    this.#wake.abort()
  }

  /** Ends the connection there is. It is dialled again from where the source is then. */
  disconnect(reason: string): void {
    this.source.stuckReason = undefined
    this.#oversizeAt = undefined
    this.#isGivenUp = true
    this.#socket?.end({ reason })
    this.reconnect()
  }

  /** Stops reading from the socket, so that the host waits, or reads again. */
  setPaused(reason: PauseReason, isPaused: boolean): void {
    this.#gate.setPaused(reason, isPaused)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#wake.abort()
    // At once, since the source may be given its next connection before this one is over.
    this.source.stuckReason = undefined
    this.source.reading.setPause(undefined)
    this.#noteClosed()
    this.#socket?.end({ reason: 'not wanted any more' })
    await this.#done
    this.#gate.close()
  }

  async #run(): Promise<void> {
    const { source } = this
    while (!this.#stop.signal.aborted) {
      await this.#wait(this.#shared.pace.take())
      if (this.#stop.signal.aborted) return
      this.#isHurried = false
      this.#isGivenUp = false
      const startedMs = this.#elapsedMs()
      const ended = await this.#connect()
      const ending = this.#isGivenUp ? { reason: ended.reason } : ended
      this.#socket = undefined
      if (this.#stop.signal.aborted) return
      // A source that stays away for the same reason is told of once, and the notice of two minutes tells it again.
      const isNews = this.#isOpen || ending.reason !== source.lastError
      this.#noteClosed()
      source.lastError = ending.reason
      source.lastErrorAtMs = source.nowMs()
      this.#options.onDisconnected(source, ending)
      const isOver = this.#settle(ending, this.#elapsedMs() - startedMs)
      if (!isOver) continue
      const awayMs = this.#elapsedMs() - this.#awaySinceMs
      const waitMs = backoffMs(awayMs, dialBounds(awayMs))
      this.#options.logger[isNews ? 'warn' : 'debug'](
        { host: source.host, reason: ending.reason, awayMs: Math.round(awayMs), waitMs: Math.round(waitMs) },
        'source disconnected',
      )
      await this.#wait(waitMs)
    }
  }

  /** Dials, and waits for the end of what comes of it. */
  async #connect(): Promise<Ending> {
    const { source } = this
    const options = this.#options
    const reader = new SourceReader(source, options.pipeline)
    try {
      this.#socket = new Subscription({
        ...options,
        url: source.url,
        cursor: source.receivedSeq === livePosition ? undefined : source.receivedSeq,
        mayBeRelay: source.policy.kind === 'relay',
        turns: this.#shared.turns,
        onOpen: () => this.#onOpen(),
        onEvent: (message, size) => {
          reader.take(message, size)
          if (!message.ok) this.#gate.pass(unreadableCost - 1)
        },
        onNotice: (notice) => reader.takeNotice(notice),
        onDefect: (error, message) => options.onDefect(source, error, message),
        onFrames: (frames) => this.#gate.pass(frames),
      })
    } catch (cause) {
      if (!(cause instanceof FetchError)) throw cause
      return { reason: cause.message, cause: 'address-refused' }
    }
    return await this.#socket.ended
  }

  async #wait(ms: number): Promise<void> {
    this.#wake = new AbortController()
    const { signal } = this.#wake
    if (ms > 0 && !this.#isHurried && !this.#stop.signal.aborted)
      await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)
  }

  #onOpen(): void {
    const { source } = this
    if (this.#stop.signal.aborted) return
    source.lastConnectedAtMs = source.nowMs()
    source.reading.open()
    this.#isOpen = true
    this.#options.logger.info({ host: source.host, cursor: source.receivedSeq }, 'source connected')
    if (this.#gate.reason !== undefined) this.#socket?.setPaused(true)
    // An operator may have said meanwhile that it is a relay.
    if (source.stuckReason === addressNotAllowed || source.stuckReason === relayLoop)
      source.stuckReason = undefined
  }

  /** The connection is over, if there was one. */
  #noteClosed(): void {
    const { source } = this
    if (!this.#isOpen) return
    this.#isOpen = false
    source.lastDisconnectedAtMs = source.nowMs()
    source.reading.close()
  }

  #onGate(reason: PauseReason | undefined): void {
    if (this.#stop.signal.aborted) return
    this.#socket?.setPaused(reason !== undefined)
    this.source.reading.setPause(reason)
  }

  /** Draws conclusions from how a connection ended. False when the source is to be dialled again at once. */
  #settle(ending: Ending, lastedMs: number): boolean {
    const { source } = this
    const hasProgress = source.eventsLogged > this.#loggedBefore
    this.#loggedBefore = source.eventsLogged
    if (hasProgress || (lastedMs > healthyAfterMs && ending.cause === undefined)) {
      this.#awaySinceMs = this.#elapsedMs()
      source.stuckReason = undefined
    }
    if (source.stuckReason === addressNotAllowed) source.stuckReason = undefined
    if (ending.cause === 'address-refused') source.stuckReason = addressNotAllowed
    else if (ending.cause === 'oversize') this.#noteOversize()
    else if (ending.cause === 'renumbered') return !this.#beginEpoch()
    else if (ending.cause === relayLoop) source.stuckReason = relayLoop
    return true
  }

  #noteOversize(): void {
    const { source } = this
    const at = source.receivedSeq
    const detail = `a message of over ${limits.messageBytes} bytes after seq ${at}`
    this.#options.onRefused(source, 'oversize', detail, { upstreamSeq: at })
    // An operator has decided so before the last restart.
    if (at < source.movedOnTo) return source.skipTo(source.movedOnTo)
    if (this.#oversizeAt === at) source.stuckReason = `oversize after seq ${at}`
    this.#oversizeAt = at
  }

  /** The source no longer knows our position, because its numbering began again. At most once an hour it is read again. */
  #beginEpoch(): boolean {
    const { source } = this
    const { logger, onEpoch } = this.#options
    const isHeld = source.policy.onRenumbered === 'hold'
    const sinceMs = source.nowMs() - source.epochAtMs
    // Below 0 the clock was set back, and nobody knows how long ago the last epoch began.
    if (isHeld || (sinceMs >= 0 && sinceMs < epochMsMin)) {
      source.stuckReason = isHeld ? 'renumbered, held' : 'renumbered again within the hour'
      logger.error(
        { host: source.host, cursor: source.cursor, reason: source.stuckReason },
        'source does not know our position',
      )
      return false
    }
    source.beginEpoch(source.nowMs(), 0)
    source.stuckReason = undefined
    onEpoch(source)
    logger.error(
      { host: source.host, epoch: source.epoch },
      'source begins its numbers again: reading it from its oldest event',
    )
    return true
  }
}
