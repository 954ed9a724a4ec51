/**
 * One approved PDS: who it is, how far we have read, and what happens on its connection.
 * The cursor is the end of the contiguous prefix of events that are done: refused, or durable in our log.
 */
import type { UpstreamEvent } from './upstream-event.ts'

/** What a source is doing. Silence is not a state: a quiet host is connected. */
export type SourceState = 'connecting' | 'connected' | 'unreachable' | 'stuck' | 'disabled'

export interface StoredSource {
  id: number
  /** Host name, with a port where it is a private one. */
  host: string
  /** `wss://…` or `ws://…`, without a path. */
  url: string
  /** Seq of the source up to which everything is done; 0 before the first. */
  cursor: number
  /** Counts the times that the source's numbering began anew. */
  epoch: number
  /** When the last epoch began, in milliseconds since 1970; 0 for the first. */
  epochAtMs: number
  /** Events above the cursor that are in our log already. */
  ahead: number[]
}

export class Source {
  readonly id: number
  readonly host: string
  readonly url: string
  state: SourceState = 'connecting'
  lastError: string | undefined
  cursor: number
  epoch: number
  epochAtMs: number
  eventsReceived = 0
  /** Events in the order of arrival, from the first that is not done. */
  #underWay: UpstreamEvent[] = []
  #firstUnderWay = 0
  /** After a restart: events above the cursor that the log holds, so that they are not logged twice. */
  readonly #logged: Set<number>

  constructor(stored: StoredSource) {
    this.id = stored.id
    this.host = stored.host
    this.url = stored.url
    this.cursor = stored.cursor
    this.epoch = stored.epoch
    this.epochAtMs = stored.epochAtMs
    this.#logged = new Set(stored.ahead)
  }

  /** The newest seq that was received, done or not. */
  get receivedSeq(): number {
    return this.#underWay.at(-1)?.upstreamSeq ?? this.cursor
  }

  /** Whether our log has the event from before a restart. */
  isLogged(upstreamSeq: number): boolean {
    return this.#logged.size > 0 && this.#logged.has(upstreamSeq)
  }

  /** Notes from the log, at start, that an event of this epoch is in it. */
  noteLogged(upstreamSeq: number): void {
    if (upstreamSeq > this.cursor) this.#logged.add(upstreamSeq)
  }

  begin(event: UpstreamEvent): void {
    this.#underWay.push(event)
  }

  /** Moves the cursor over everything that is done, given how far our log is durable. True if it moved. */
  advance(durableSeq: number): boolean {
    const before = this.cursor
    for (
      let event = this.#underWay[this.#firstUnderWay];
      event?.loggedAs !== undefined && event.loggedAs <= durableSeq;
      event = this.#underWay[++this.#firstUnderWay]
    ) {
      if (event.epoch === this.epoch) this.cursor = Math.max(this.cursor, event.upstreamSeq)
    }
    if (this.#firstUnderWay > 1024 || this.#firstUnderWay === this.#underWay.length) {
      this.#underWay = this.#underWay.slice(this.#firstUnderWay)
      this.#firstUnderWay = 0
    }
    if (this.#logged.size > 0)
      for (const seq of this.#logged) if (seq <= this.cursor) this.#logged.delete(seq)
    return this.cursor > before
  }

  /** The source numbers its events anew: read from its oldest. What was seen before drops by its revision. */
  beginEpoch(nowMs: number): void {
    this.epoch++
    this.epochAtMs = nowMs
    this.cursor = 0
    this.#logged.clear()
  }

  /** What has to be stored. Events that are done above the cursor are named, for those are in the log too. */
  stored(durableSeq: number): StoredSource {
    const ahead = this.#underWay
      .slice(this.#firstUnderWay)
      .filter(
        ({ epoch, loggedAs }) =>
          epoch === this.epoch && loggedAs !== undefined && loggedAs > 0 && loggedAs <= durableSeq,
      )
      .map(({ upstreamSeq }) => upstreamSeq)
    const { id, host, url, cursor, epoch, epochAtMs } = this
    return { id, host, url, cursor, epoch, epochAtMs, ahead: [...this.#logged, ...ahead] }
  }
}
