/** Takes in what one connection to a source brings: counts it, and hands events to the pipeline. */
import type { EventMessage, Notice } from '@tributary/subscription'
import { livePosition, type Source } from './source.ts'

/** Where events of sources go. */
export interface EventReceiver {
  /**
   * Takes one message of a source. Its bytes may be used again by the caller when this returns.
   * @param bytes length of the message.
   * @param lastSeq the newest seq that came on the same connection; 0 on the first message.
   * @returns the seq of the message, or `lastSeq` when it has none that counts.
   */
  receive(source: Source, message: EventMessage, bytes: number, lastSeq: number): number
}

/** Time between two looks at how old events are when they come. */
const sampleMs = 1000

export class SourceReader {
  readonly #source: Source
  readonly #pipeline: EventReceiver
  /** Events were read before this connection. Of a source that is new nothing is lost. */
  readonly #hasBegun: boolean
  /** Position from which this connection reads on. Below 1 there is none. */
  readonly #position: number
  #lastSeq = 0
  #sampledMs = 0

  constructor(source: Source, pipeline: EventReceiver) {
    this.#source = source
    this.#pipeline = pipeline
    this.#hasBegun = source.hasBegun
    this.#position = source.receivedSeq
    // Until its first event comes, each connection begins with what is new. Nobody tells what was sent between two of them.
    if (source.receivedSeq === livePosition) source.lostAtMs = source.nowMs()
  }

  /** @param size of the message, in bytes. */
  take(message: EventMessage, size: number): void {
    const source = this.#source
    const nowMs = source.nowMs()
    source.eventsReceived++
    source.lastMinute.spend(1)
    source.bytesReceived += size
    source.lastEventAtMs = nowMs
    if (nowMs - this.#sampledMs > sampleMs) this.#sample(message, nowMs)
    const seq = this.#pipeline.receive(source, message, size, this.#lastSeq)
    // Some relays do not say that they no longer have what came after our position: then only this number tells of it.
    const before = this.#lastSeq > 0 ? this.#lastSeq : this.#position
    if (before > 0 && seq > before + 1) source.gaps++
    this.#lastSeq = seq
  }

  takeNotice(notice: Notice): void {
    if (notice.kind !== 'info' || notice.name !== 'OutdatedCursor' || !this.#hasBegun) return
    this.#source.losses++
    this.#source.lostAtMs = this.#source.nowMs()
  }

  #sample(message: EventMessage, nowMs: number): void {
    this.#sampledMs = nowMs
    const atMs = message.ok && 'time' in message ? Date.parse(message.time) : NaN
    if (!Number.isNaN(atMs)) this.#source.eventAgeMs = Math.max(0, nowMs - atMs)
  }
}
