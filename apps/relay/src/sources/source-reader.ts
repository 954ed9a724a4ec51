/** Takes in what one connection to a source brings: counts it, and hands events to the pipeline. */
import type { Did } from '@tributary/protocol'
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
/**
 * Looks that count, one for each account: each host behind a relay may write any time into its events, so that no single
 * one says how old they are.
 */
const looks = { max: 20, ageMsMax: 60_000 }

export class SourceReader {
  readonly #source: Source
  readonly #pipeline: EventReceiver
  /** Events were read before this connection. Of a source that is new nothing is lost. */
  readonly #hasBegun: boolean
  /** Position from which this connection reads on. Below 1 there is none. */
  readonly #position: number
  #lastSeq = 0
  #sampledMs = 0
  /** How old the event was that came at the last look at an account, oldest look first. */
  readonly #ages = new Map<Did, { ageMs: number; atMs: number }>()

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
    if (Math.abs(nowMs - this.#sampledMs) > sampleMs) this.#sample(message, nowMs)
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

  /** Events are as old as half of the looks say, at least. */
  #sample(message: EventMessage, nowMs: number): void {
    const source = this.#source
    const ages = this.#ages
    this.#sampledMs = nowMs
    const writtenMs = message.ok && 'time' in message ? Date.parse(message.time) : NaN
    if (!message.ok || !('did' in message) || Number.isNaN(writtenMs)) return
    ages.delete(message.did)
    ages.set(message.did, { ageMs: Math.max(0, nowMs - writtenMs), atMs: nowMs })
    const sinceMs = nowMs - looks.ageMsMax
    let tooMany = ages.size - looks.max
    for (const [did, { atMs }] of ages)
      // A look at a date to come was before the clock was set back.
      if (tooMany-- > 0 || atMs < sinceMs || atMs > nowMs) ages.delete(did)
    const sorted = Array.from(ages.values(), ({ ageMs }) => ageMs).toSorted((a, b) => a - b)
    source.eventAgeMs = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0
  }
}
