/**
 * A server of Jetstream v1 numbers its events by their times, which need not grow: an event may come some milliseconds after
 * one of a later time. So a new connection begins a little before the cursor, and what came before is known by more than
 * its number.
 */
import type { StreamEvent } from '@tributary/protocol'

/** Seqs from here on are times in microseconds. */
export const firstTimeSeq = 1e15
/** How far before the cursor a connection begins. Times of a production server went back by 40 ms. */
const rewindMicros = 5_000_000
/** Messages that are remembered, and characters of their names. Of more in that time, some may be given out again. */
const remembered = { max: 100_000, charsMax: 16 * 1024 * 1024 }

/** The cursor to ask for when everything up to `cursor` came. */
export function askedCursor(cursor: number): number {
  return cursor < firstTimeSeq ? cursor : Math.max(firstTimeSeq, cursor - rewindMicros)
}

/** Names an event among those of its time. */
export function nameOf(event: StreamEvent): string {
  const path = event.kind === 'commit' ? ` ${event.collection}/${event.rkey} ${event.rev}` : ''
  return `${event.did} ${event.kind}${path}`
}

/** The messages of the last seconds, by their own times. */
export class RecentEvents {
  /** In the order in which they came. */
  readonly #seen = new Map<string, { micros: number; connection: number }>()
  #connection = 0
  #newestMicros = 0
  #chars = 0

  /** What came so far may come again from now on. */
  beginConnection(): void {
    this.#connection++
  }

  /** Whether a message came on an earlier connection. It is remembered. */
  hasCome(micros: number, name: string): boolean {
    const key = `${micros} ${name}`
    const seen = this.#seen.get(key)
    if (seen && seen.connection < this.#connection) return true
    if (!seen) this.#chars += key.length
    this.#seen.set(key, { micros, connection: this.#connection })
    this.#newestMicros = Math.max(this.#newestMicros, micros)
    for (const [oldest, { micros: time }] of this.#seen) {
      if (time >= this.#newestMicros - rewindMicros && this.#isWithinBounds()) break
      this.#seen.delete(oldest)
      this.#chars -= oldest.length
    }
    return false
  }

  #isWithinBounds(): boolean {
    return this.#seen.size <= remembered.max && this.#chars <= remembered.charsMax
  }
}
