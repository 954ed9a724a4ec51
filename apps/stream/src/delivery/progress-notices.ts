import { frameText, type Subscriber } from '@tributary/fanout'
import { Turns } from '@tributary/rates'
import { renderInfo } from './render.ts'
import type { Rendition } from './rendition.ts'

/** What was known of a subscriber at the last look. */
interface Quiet {
  readonly rendition: Rendition
  sinceMs: number
  bytesSent: number
  /** It knows that it has come this far. */
  toldSeq: number
  /** It was told that it has caught up. */
  isCaughtUp: boolean
}

const looksPerQuiet = 15
const lookMsMax = 1000

/**
 * Tells subscribers that asked for it how far they have come: once when they have caught up, because a reader that wants
 * the past alone is done then, and later when nothing else was sent to them for a while. A filter that seldom matches
 * would leave them with an old cursor.
 */
export class ProgressNotices {
  readonly #quietMs: number
  readonly #turns: Turns
  readonly #subscribers = new Map<Subscriber, Quiet>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  /**
   * @param quietMs milliseconds without a message before a notice.
   * @param turns shares the event loop: ten thousand notices take longer than one turn may.
   */
  constructor(quietMs: number, turns: Turns = new Turns()) {
    this.#quietMs = quietMs
    this.#turns = turns
  }

  add(subscriber: Subscriber, rendition: Rendition): void {
    const { bytesSent, startCursor: toldSeq } = subscriber
    this.#subscribers.set(subscriber, {
      rendition,
      sinceMs: performance.now(),
      bytesSent,
      toldSeq,
      isCaughtUp: false,
    })
    this.#timer ??= setInterval(() => this.#look(), Math.min(this.#quietMs / looksPerQuiet, lookMsMax))
  }

  delete(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber)
    if (this.#subscribers.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    const round = this.#subscribers.entries()
    this.#turns.run(() => {
      const { value, done } = round.next()
      this.#isLooking = done !== true
      if (value) this.#lookAt(...value)
      return this.#isLooking
    })
  }

  #lookAt(subscriber: Subscriber, quiet: Quiet): void {
    const nowMs = performance.now()
    const isNew = subscriber.state === 'live' && !quiet.isCaughtUp
    const isDue = isQuiet(subscriber, quiet, nowMs) && (isNew || nowMs - quiet.sinceMs >= this.#quietMs)
    const isAtWork = subscriber.state === 'live' || subscriber.state === 'behind'
    if (!isDue || !isAtWork || subscriber.isHolding) return
    if (subscriber.state === 'live') subscriber.group.flush()
    const seq = subscriber.state === 'live' ? subscriber.group.headSeq : subscriber.position
    // What is written here comes after every message up to this seq, so none of them may wait anywhere.
    if (seq <= quiet.toldSeq || !isQuiet(subscriber, quiet, nowMs)) return
    subscriber.write([quiet.rendition.frame(progressFrame(seq))], seq)
    const isCaughtUp = quiet.isCaughtUp || subscriber.state === 'live'
    Object.assign(quiet, { sinceMs: nowMs, bytesSent: subscriber.bytesSent, toldSeq: seq, isCaughtUp })
  }
}

/** Whether nothing was sent since the last look. */
function isQuiet({ bytesSent }: Subscriber, quiet: Quiet, nowMs: number): boolean {
  if (bytesSent === quiet.bytesSent) return true
  quiet.bytesSent = bytesSent
  quiet.sinceMs = nowMs
  return false
}

function progressFrame(seq: number): Uint8Array {
  const message = `Everything up to ${seq} that you asked for has been sent`
  return frameText(renderInfo({ name: 'Progress', message, seq }))
}
