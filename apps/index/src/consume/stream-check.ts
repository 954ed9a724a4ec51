import type { StreamBatch } from '@tributary/client/node'
import { fingerprintOf, type FoldedEvents } from '../fold/followed-stream.ts'

/** The stream is another one than the index has followed. */
export class AnotherStreamError extends Error {
  override readonly name = 'AnotherStreamError'
}

/**
 * Compares what a stream sends again with what the index has folded. Numbers alone do not tell: those of a stream that was
 * set up anew may have passed the cursor.
 */
export class StreamCheck {
  /** Where to read from, so that the remembered events come again. */
  readonly startAt: number
  readonly #folded: FoldedEvents
  readonly #cursor: number
  #matching = 0
  #strange = 0
  #isOver: boolean

  constructor(folded: FoldedEvents, cursor: number) {
    this.#folded = folded
    this.#cursor = cursor
    this.#isOver = folded.size === 0
    this.startAt = this.#isOver ? cursor : Math.min(...folded.keys()) - 1
  }

  /**
   * Looks at the next batch. Compaction may have removed remembered events, so one that does not come says nothing; others
   * in their place do.
   * @throws AnotherStreamError before anything of that stream is to be folded.
   */
  see({ events, cursor }: StreamBatch): void {
    if (this.#isOver) return
    for (const event of events) {
      if (event.seq > this.#cursor) break
      const folded = this.#folded.get(event.seq)
      if (folded === undefined) this.#strange++
      else if (folded === fingerprintOf(event)) this.#matching++
      else throw new AnotherStreamError(`event ${event.seq} is another one than the index has read`)
    }
    if (cursor <= this.#cursor) return
    this.#isOver = true
    if (this.#matching === 0 && this.#strange > 0) {
      throw new AnotherStreamError(`none of the events before ${this.#cursor} is one that the index has read`)
    }
  }
}
