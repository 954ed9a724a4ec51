import { FetchError, type PrivateHosts, RecentMap, type SafeHead, safeFetchPieces } from '@tributary/identity'
import { systemClock, wait, type Clock } from '@tributary/lanes'
import { TokenBucket } from '@tributary/rates'
import { hasCome, waitMsMax } from './retry-wait.ts'

/** A host does not answer, or wants to be left alone for a while. */
export class HostAwayError extends Error {
  override readonly name = 'HostAwayError'
  /** Milliseconds after which the host may be asked again, where it says so. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: { retryAfterMs?: number | undefined; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.retryAfterMs = options.retryAfterMs
  }
}

/** An answer has more bytes than we take. */
export class OversizeError extends Error {
  override readonly name = 'OversizeError'
}

export interface HostAnswer {
  status: number
  body: Buffer
}

export interface HostRequestsOptions extends PrivateHosts {
  /** Requests a second to a host. */
  paceOf: (origin: string) => number
  signal: AbortSignal
  /** Default: that of the machine. */
  clock?: Clock
  /** Default: `safeFetchPieces`. */
  fetch?: typeof safeFetchPieces
}

export interface AskOptions {
  bytesMax: number
  timeoutMs: number
  /** What must hold of the answer while others wait for it. Default: nothing. */
  hurry?: Hurry
  /** Takes the body of an answer with status 200, piece by piece: then it is not in the answer. */
  take?: (piece: Buffer) => void
}

/** An answer is given up when others wait, and it takes longer, or it is slower once it takes ten seconds. */
export interface Hurry {
  isNeeded: () => boolean
  secondsMax: number
  bytesPerSecondMin: number
}

interface Line {
  bucket: TokenBucket
  /** The host asked not to be called before. */
  quietUntilMs: number
}

const hostsMax = 10_000
/** Bytes that are read of an answer that tells of an error. */
const errorBytesMax = 16 * 1024
/** What a host asks for is kept to within these bounds. */
const retryAfterMs = { min: 1000, max: waitMsMax }
/** What a host may have us take in for nothing: a megabyte a second. */
const uselessBytesPerMs = 1000
/** Seconds before the pace of an answer counts: a host may need some to begin with. */
const paceSeconds = 10
/** The host, or the proxy in front of it, is overloaded or away. */
const awayStatuses = new Set([429, 500, 502, 503, 504])

/** Requests to hosts at a pace for each, and none while a host wants to be left alone. */
export class HostRequests {
  readonly #options: HostRequestsOptions
  readonly #clock: Clock
  readonly #lines = new RecentMap<string, Line>(hostsMax)

  constructor(options: HostRequestsOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  /** Milliseconds for which a host wants to be left alone. */
  quietMs(origin: string): number {
    const { quietUntilMs = 0 } = this.#lines.get(origin) ?? {}
    const nowMs = this.#clock.nowMs()
    return hasCome(quietUntilMs, nowMs) ? 0 : quietUntilMs - nowMs
  }

  /** Leaves a host alone for a while whose answer of so many bytes could not be used: it could keep us busy with them. */
  noteUseless(origin: string, bytes: number): void {
    const line = this.#line(origin)
    const untilMs = this.#clock.nowMs() + bytes / uselessBytesPerMs
    line.quietUntilMs = Math.max(line.quietUntilMs, untilMs)
  }

  /** Calls a query of a host. @throws HostAwayError, OversizeError */
  async ask(origin: string, method: string, options: AskOptions): Promise<HostAnswer> {
    const { bytesMax, timeoutMs, hurry } = options
    const { allowedPrivateHosts, signal, fetch = safeFetchPieces } = this.#options
    const line = this.#line(origin)
    const quietMs = this.quietMs(origin)
    if (quietMs > 0) {
      const message = `${origin} wants to be left alone for ${Math.ceil(quietMs / 1000)} s`
      throw new HostAwayError(message, { retryAfterMs: quietMs })
    }
    const { waitMs } = line.bucket.take(Infinity)
    if (waitMs > 0) await wait(this.#clock, waitMs, signal)
    const pieces: Buffer[] = []
    let bytes = 0
    const take = (piece: Buffer, { status }: SafeHead): 'more' | 'enough' => {
      bytes += piece.length
      const isEnough = bytes > (status === 200 ? bytesMax : errorBytesMax)
      if (options.take && status === 200) options.take(piece)
      else if (isEnough) pieces.length = 0
      else pieces.push(piece)
      return isEnough ? 'enough' : 'more'
    }
    let head: SafeHead
    const slow = new AbortController()
    using watch = hurry && this.#watchPace(hurry, () => bytes, slow)
    const ends = watch ? AbortSignal.any([signal, slow.signal]) : signal
    try {
      const bounds = { bytesMax: Infinity, timeoutMs, redirectsMax: 0, allowedPrivateHosts, signal: ends }
      const url = `${origin}/xrpc/com.atproto.sync.${method}`
      head = await fetch(url, { ...bounds, headers: { 'user-agent': 'tributary-stream' } }, take)
    } catch (cause) {
      if (!(cause instanceof FetchError)) throw cause
      throw new HostAwayError(`${origin}: ${cause.message}`, { cause })
    }
    const { status, headers } = head
    if (status === 200 && bytes > bytesMax)
      throw new OversizeError(`${origin} answered with more than ${bytesMax} bytes`)
    if (!awayStatuses.has(status)) return { status, body: Buffer.concat(pieces) }
    const nowMs = this.#clock.nowMs()
    const askedMs = readRetryAfter(headers['retry-after'], nowMs)
    if (askedMs !== undefined) line.quietUntilMs = nowMs + askedMs
    throw new HostAwayError(`${origin} answered with ${status}`, { retryAfterMs: askedMs })
  }

  /**
   * Ends an answer that is too slow since it was asked for. Seconds are counted by the timers, because these are late
   * where we are the slow ones.
   */
  #watchPace(hurry: Hurry, bytesOf: () => number, ending: AbortController): Disposable {
    const { secondsMax, bytesPerSecondMin } = hurry
    let seconds = 0
    const faultNow = (): string | undefined => {
      if (seconds < paceSeconds || !hurry.isNeeded()) return undefined
      if (bytesOf() < seconds * bytesPerSecondMin) return `fewer than ${bytesPerSecondMin} bytes a second`
      return seconds > secondsMax ? `not come in ${secondsMax} s` : undefined
    }
    const look = (): void => {
      seconds++
      const fault = faultNow()
      if (fault === undefined) timer = this.#clock.after(1000, look)
      else ending.abort(new FetchError(`others wait, and the answer has ${fault}`))
    }
    let timer = this.#clock.after(1000, look)
    return { [Symbol.dispose]: () => timer[Symbol.dispose]() }
  }

  #line(origin: string): Line {
    let line = this.#lines.get(origin)
    if (!line) {
      const perSecond = this.#options.paceOf(origin)
      line = { bucket: new TokenBucket({ perSecond }, () => this.#clock.nowMs()), quietUntilMs: 0 }
      this.#lines.set(origin, line)
    }
    return line
  }
}

/** `Retry-After` in milliseconds: seconds or a date (RFC 9110, 10.2.3). Undefined when it is neither. */
export function readRetryAfter(header: string | undefined, nowMs: number = Date.now()): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - nowMs
  if (Number.isNaN(ms)) return undefined
  return Math.min(Math.max(ms, retryAfterMs.min), retryAfterMs.max)
}
